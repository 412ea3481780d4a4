"""Text mathematics: the columns of each set, the published prompts word for word, several sets at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.fixtures.makers.textmath import make
from tests.fixtures.qwen_tokenizer import needs_qwen, render
from tests.tasks.loaded import (
    SHARED,
    assert_gold_earns_all,
    assert_same,
    dataset_folder,
    load_samples,
    needs_shared,
    prepare,
)
from vlrft.cli.main import main
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text
from vlrft.schema import DataError, Sample
from vlrft.scoring.graders import Graders
from vlrft.testing.qwen_tokenizer import qwen_tokenizer

TURNS = ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")
SYSTEM = "<|im_start|>system\n{}<|im_end|>\n"
HELPFUL = SYSTEM.format("You are a helpful assistant.")
ASKED = "Find $x$ if $2x = 7$."
PROMPTS = {
    "qwen_math": SYSTEM.format("Please reason step by step, and put your final answer within \\boxed{}.")
    + ASKED.join(TURNS),
    "r1": (
        "A conversation between User and Assistant. The User asks a question, and the Assistant solves it. "
        "The Assistant first thinks about the reasoning process in the mind and then provides the User with "
        "the answer. The reasoning process is enclosed within <think> </think> and answer is enclosed within "
        "<answer> </answer> tags, respectively, i.e., <think> reasoning process here </think> <answer> answer "
        f"here </answer>.\nUser: {ASKED}\nAssistant: <think>"
    ),
    "none": ASKED,
    "r1d": HELPFUL + ASKED.join(TURNS),
    "open_rs": SYSTEM.format(
        "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. "
        "The assistant first thinks about the reasoning process in the mind and then provides the user with "
        "the answer, and put your final answer within \\boxed{{}} . The reasoning process and answer are "
        "enclosed within <think> </think> and <answer> </answer> tags, respectively, i.e., <think> reasoning "
        "process here </think> <answer> answer here </answer>. Note that respond by English, NOT use other "
        "languages."
    )
    + ASKED.join(TURNS),
    "lighteval": HELPFUL
    + (
        "Solve the following math problem efficiently and clearly.  The last line of your response should be "
        "of the following format: 'Therefore, the final answer is: $\\boxed{ANSWER}$. I hope it is correct' "
        "(without quotes) where ANSWER is just the final number or expression that solves the problem. Think "
        f"step by step before answering.\n\n{ASKED}"
    ).join(TURNS),
    "verl": HELPFUL
    + f"{ASKED} Let's think step by step and output the final answer within \\boxed{{}}.".join(TURNS),
    "clean": HELPFUL
    + (
        f"{ASKED}\nThink first, between <think> and </think>. Then give the final answer, and nothing else, "
        "between <answer> and </answer>."
    ).join(TURNS),
}  # fmt: skip
GOLD_ANSWERS: dict[str, list[Any]] = {
    "gsm8k": ["72", "3000"],
    "math": ["\\frac{1}{2}", "\\frac{3}{2}", "\\frac{5}{2}"],
    "math_lvl3to5": ["4"],
    "math12k": ["\\frac{7}{2}"],
    "open_s1": ["2\\sqrt{3}"],
    "dapo17k": ["1", "2"],
    "deepscaler": ["-\\frac{2}{3}"],
}
TESTS = ("gsm8k", "math", "countdown", "aime24", "amc23_40", "math500", "minerva", "olympiadbench")
data = dataset_folder(make)


@needs_qwen
@pytest.mark.parametrize("prompt", PROMPTS)
def test_prompts_word_for_word(data: Path, prompt: str) -> None:
    samples = load_samples("textmath", "train", data / "raw", train="math12k", prompt=prompt)[0]
    assert render(samples) == PROMPTS[prompt]


@needs_qwen
def test_prompts_for_base_models_have_no_chat_token(data: Path) -> None:
    samples = load_samples("textmath", "train", data / "raw", train="math12k", prompt="r1")[0]
    ids = qwen_tokenizer().encode(render(samples))
    assert max(ids) < 151643  # the first special token


@pytest.mark.parametrize("name", GOLD_ANSWERS)
def test_the_columns_of_each_set_are_read(data: Path, name: str) -> None:
    samples = load_samples("textmath", "train", data / "raw", train=name)
    assert [s.answer for s in samples] == GOLD_ANSWERS[name]
    assert samples[0].id == f"{name}/train/0"
    assert {s.tags["kind"] for s in samples} == {name}
    assert not any("{question}" in str(s.messages) for s in samples)


def test_dapo_gives_each_problem_once_without_its_instructions(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = load_samples("textmath", "train", data / "raw", train="dapo17k", prompt="none")
    assert [s.messages[0].content for s in samples] == [
        ("Find the least $n$ above 0.",),
        ("Find the least $n$ above 1.",),
    ]
    assert "train: 4 rows left out: duplicate question" in capsys.readouterr().err


@pytest.mark.parametrize("prompt", PROMPTS)
def test_gold_answers_earn_full_marks(data: Path, prompt: str) -> None:
    for name in GOLD_ANSWERS:
        assert_gold_earns_all(
            "textmath", load_samples("textmath", "train", data / "raw", train=name, prompt=prompt)
        )
    assert_gold_earns_all(
        "textmath", load_samples("textmath", "test", data / "raw", test=TESTS, prompt=prompt)
    )


@pytest.mark.parametrize(
    ("prompt", "graders"),
    [
        *((name, {"strict"}) for name in ("clean", "short")),
        *((name, {"strict", "official"}) for name in ("qwen_math", "open_rs", "none", "r1")),
    ],
)
def test_the_released_grader_has_a_grade_unless_the_prompt_asks_for_a_tag(
    data: Path, prompt: str, graders: set[str]
) -> None:
    (sample, *_) = load_samples("textmath", "train", data / "raw", train="math12k", prompt=prompt)
    task = find_task("textmath")
    grades = Graders.of(task).record(sample, gold_text(task, sample)).grades
    assert grades == dict.fromkeys(graders, 1.0)


def test_the_released_grader_of_prompt_r1_reads_the_tag_one_space_after_the_thinking(
    data: Path,
) -> None:
    (sample, *_) = load_samples("textmath", "train", data / "raw", train="math12k", prompt="r1")
    task = find_task("textmath")
    assert gold_text(task, sample) == "</think> <answer>\\frac{7}{2}</answer>"
    outputs = {
        "So.</think> <answer>7/2</answer>": 1.0,
        "So.</think><answer>7/2</answer>": 0.0,
        "So, \\boxed{7/2}.</think> 7/2": 0.0,
    }
    graders = Graders.of(task)
    assert {text: graders.grade("official", text, sample) for text in outputs} == outputs


def test_gold_answers_may_be_numbers_and_lists(data: Path) -> None:
    samples = load_samples("textmath", "test", data / "flat", test=("amc_83",))
    assert [s.answer for s in samples] == [142.0]
    assert_gold_earns_all("textmath", samples)
    several = Sample(id="o", messages=(), answer=["$x=-1$", "$x=2$"], tags={"answer": "math"})
    graders = Graders.of(find_task("textmath"))
    for text, grade in (("-1", 1.0), ("2", 1.0), ("1", 0.0)):
        assert graders.grade("strict", f"<answer>{text}</answer>", several) == grade


def test_levels_select_rows(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = load_samples("textmath", "train", data / "raw", train="math", levels=(3, 5))
    assert [s.tags["level"] for s in samples] == ["Level 3", "Level 5"]
    assert "1 row left out: another level" in capsys.readouterr().err
    test = load_samples("textmath", "test", data / "raw", test=("math",), levels=(1, 5))
    assert [s.tags["level"] for s in test] == ["Level 4"]  # not that of `Level ?`


def test_a_set_without_splits_is_split_by_hash(data: Path) -> None:
    train = load_samples("textmath", "train", data / "flat", train="asdiv")
    test = load_samples("textmath", "test", data / "flat", test=("asdiv",))
    assert (len(train), len(test)) == (37, 3)
    question = [str(s.messages) for s in (*train, *test)]
    assert len(set(question)) == 40
    test = load_samples("textmath", "test", data / "raw", test=("countdown",))
    assert len(test) == 1  # a folder with a test table is not split again


def test_prepare_lists_the_rows_that_are_left_out(data: Path, tmp_path: Path) -> None:
    defects = {
        name: prepare("textmath", data / "raw", tmp_path / name, f"options.train={name}", *SPLIT)
        for name in ("countdown", "open_rs", "dapo17k")
    }
    assert defects["countdown"]["train"] == {"countdown/train/1": "gold answer unreadable"}
    assert defects["open_rs"]["train"] == {"open_rs/train/1": "incomplete row"}
    assert set(defects["dapo17k"]["train"].values()) == {"duplicate question"}
    flat = prepare("textmath", data / "flat", tmp_path / "flat", "options.test=[olympiadbench]")
    assert flat["test"] == {"olympiadbench/test/1": "incomplete row"}


SPLIT = ("options.test=[aime24]",)


def test_options_select_rows_of_a_prepared_folder(data: Path, tmp_path: Path) -> None:
    more = ("options.train=math", f"options.test=[{','.join(TESTS)}]")
    assert prepare("textmath", data / "raw", tmp_path, *more) == {"train": {}, "test": {}}
    raw = load_samples("textmath", "test", data / "raw", test=("math", "aime24"))
    assert_same(load_samples("textmath", "test", tmp_path, test=("math", "aime24")), raw)
    samples = load_samples("textmath", "train", tmp_path, train="math", levels=(3, 3))
    assert [s.answer for s in samples] == ["\\frac{3}{2}"]
    with pytest.raises(DataError, match="train split was prepared without gsm8k; it has math"):
        load_samples("textmath", "train", tmp_path, train="gsm8k")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"train": "aime24"}, "aime24 has no train rows; use it for test"),
        ({"train": "asdiv", "data": None}, "is not on the hub; give its place with data=PATH"),
        (
            {"train": "deepscaler", "data": "flat"},
            "no table of deepscaler with its train split; looked for .1. deepscaler.jsonl",
        ),
    ],
)
def test_the_error_says_where_a_missing_set_was_expected(
    data: Path, options: dict[str, Any], problem: str
) -> None:
    place = data / (options.get("data") or "raw")
    settings = {
        "data": str(place),
        **{k: v for k, v in options.items() if k != "data" or v is None},
    }
    from vlrft.config import TaskConfig
    from vlrft.rollout.task import load_task

    with pytest.raises(DataError, match=problem):
        load_task(TaskConfig(name="textmath", options=settings), "train")


def test_the_error_names_an_unknown_set(data: Path) -> None:
    with pytest.raises(ValidationError, match="unknown set"):
        load_samples("textmath", "train", data / "raw", train="gsm9k")


def test_the_first_samples_cover_every_set(data: Path) -> None:
    samples = load_samples("textmath", "test", data / "flat", test=("asdiv", "amc_83", "gsm8k"))
    kinds = [s.tags["kind"] for s in samples]
    assert kinds == ["asdiv", "amc_83", "gsm8k", "asdiv", "gsm8k", "asdiv", "gsm8k"]


def test_metrics_of_several_sets_are_given_for_each_and_for_their_mean(data: Path) -> None:
    task = find_task("textmath")
    samples = load_samples("textmath", "test", data / "raw", test=("math", "aime24"))
    graders = Graders.of(task)
    wrong = "math/test/0"

    def answer(sample: Sample) -> str:
        return "<answer>0</answer>" if sample.id == wrong else f"<answer>{sample.answer}</answer>"

    metrics = compute_metrics(task, [graders.record(s, answer(s)) for s in samples]).graded[
        "strict"
    ]
    assert {name: metric.score for name, metric in metrics.items()} == {
        "mean": 0.75,  # of 1/2 and 1/1; of the answers two in three are right
        "math": 0.5,
        "aime24": 1.0,
    }
    twice = [graders.record(s, text) for s in samples for text in (answer(s), "<answer>0</answer>")]
    metrics = compute_metrics(task, twice).graded["strict"]
    assert {name: metric.score for name, metric in metrics.items()} == {
        "mean": 0.375,
        "math avg@2": 0.25,
        "math pass@2": 0.5,
        "aime24 avg@2": 0.5,
        "aime24 pass@2": 1.0,
    }


@needs_shared
def test_the_real_sets_load_and_their_gold_answers_are_read(tmp_path: Path) -> None:
    """All but three of 4,400: two that nobody could read, and one that our reader does not."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for path in (*(SHARED / "math_eval").glob("*"), *(SHARED / "text_math_train").glob("*")):
        (folder / path.name).symlink_to(path)
    sets = "aime24,amc_83,math500,minerva,olympiadbench,gsm8k,asdiv"
    more = ("options.train=asdiv", f"options.test=[{sets}]")
    left_out = prepare("textmath", folder, tmp_path / "out", *more)
    assert not left_out["train"]
    assert set(left_out["test"]) <= {
        "olympiadbench/test/96",
        "olympiadbench/test/73",
        "minerva/test/63",
    }
    samples = load_samples("textmath", "test", tmp_path / "out", test=sets.split(","))
    counts = dict.fromkeys(sets.split(","), 0)
    for sample in samples:
        counts[sample.tags["kind"]] += 1
    exact = {k: counts[k] for k in ("aime24", "amc_83", "math500")}
    assert exact == {"aime24": 30, "amc_83": 83, "math500": 500}
    assert counts["minerva"] >= 271
    assert counts["olympiadbench"] >= 673


def write_rows(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"problem": f"{name} {k}", "answer": str(k), "solution": ""} for k in range(30)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    ("files", "train", "table"),
    [
        (
            ["data/train-00000-of-00001.jsonl", "data/test-00000-of-00001.jsonl"],
            "math",
            "data/train",
        ),
        (["main/train.jsonl", "main/test.jsonl", "socratic/train.jsonl"], "gsm8k", "main/train"),
        (["MATH-lighteval/data/train.jsonl", "gsm8k/main/train.jsonl"], "math", "MATH-lighteval/"),
        (["data/train-00000-of-00001.jsonl"], "deepscaler", "data/train"),
        (["train.jsonl"], "open_rs", "train.jsonl"),
    ],
)
def test_a_copy_of_a_sets_repository_is_read(
    tmp_path: Path, files: list[str], train: str, table: str
) -> None:
    samples = load(write_rows(tmp_path, files), "train", train=train)
    assert all(table in str(s.messages[-1].content) for s in samples)
    assert len(samples) == 30


def load(data: Path, split: str, **options: Any) -> Sequence[Sample]:
    task = find_task("textmath")
    return task.load(split, task.options(data=str(data), **options))


def test_a_set_without_published_splits_is_split_in_a_copy_of_it_too(tmp_path: Path) -> None:
    write_rows(tmp_path, ["data/train-00000-of-00001.jsonl"])
    splits = [load(tmp_path, s, train="asdiv", test=("asdiv",)) for s in ("train", "test")]
    train, test = splits
    assert len(train) + len(test) == 30
    assert not {str(s.messages) for s in train} & {str(s.messages) for s in test}


def test_a_single_table_is_the_set_that_is_asked_for(tmp_path: Path) -> None:
    file = write_rows(tmp_path, ["train-00000-of-00001.jsonl"]) / "train-00000-of-00001.jsonl"
    assert len(load(file, "train", train="math")) == 30
    with pytest.raises(DataError, match="no table of math with its test split"):
        load(file, "test", test=("math",))


def test_the_one_table_of_a_copy_is_no_other_split(tmp_path: Path) -> None:
    """`data/dapo-math-17k.parquet` is the set's only split, but `data/test-….parquet` is not the train split."""
    write_rows(tmp_path / "named", ["data/dapo-math-17k.jsonl"])
    assert (
        len(load(tmp_path / "named", "train", train="math12k")) > 20
    )  # one row in ten is held out
    write_rows(tmp_path / "test", ["data/test-00000-of-00001.jsonl"])
    with pytest.raises(DataError, match="no table of math12k with its train split"):
        load(tmp_path / "test", "train", train="math12k")


def test_the_suite_of_dr_grpo_is_read_by_the_names_of_its_splits(tmp_path: Path) -> None:
    names = ("aime", "amc", "math", "minerva", "olympiad_bench")
    suite = write_rows(tmp_path, [f"data/{name}-00000-of-00001.jsonl" for name in names])
    samples = load(suite, "test")
    assert len({s.tags["kind"] for s in samples[:5]}) == 5
    assert len(samples) == 150
    with pytest.raises(DataError, match="no table of gsm8k with its train split"):
        load(suite, "train", train="gsm8k", test=("math500", "minerva"))


def test_prepare_says_that_one_row_in_ten_is_held_out(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rows(tmp_path, ["gsm8k.jsonl"]) / "gsm8k.jsonl"
    command = ["data", "prepare", "textmath", "--from", str(file), "--out", str(tmp_path / "out")]
    assert main([*command, "--split", "train"]) == 0
    assert "one row in ten, by the hash of its question" in "".join(capsys.readouterr())
