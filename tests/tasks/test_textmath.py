"""Text mathematics: each set's own columns, the published prompts word for word, several sets at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.fixtures.makers.textmath import make
from tests.fixtures.qwen_tokenizer import needs_qwen, qwen_tokenizer, rendered
from tests.tasks.loaded import (
    SHARED,
    assert_gold_earns_all,
    assert_same,
    made,
    needs_shared,
    prepare,
    samples,
)
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.plugins.find import find_task
from vlrft.schema import DataError, Sample
from vlrft.scoring.graders import Graders

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
GOLD: dict[str, list[Any]] = {
    "gsm8k": ["72", "3000"],
    "math": ["\\frac{1}{2}", "\\frac{3}{2}", "\\frac{5}{2}"],
    "math_lvl3to5": ["4"],
    "math12k": ["\\frac{7}{2}"],
    "open_s1": ["2\\sqrt{3}"],
    "dapo17k": ["1", "2"],
    "deepscaler": ["-\\frac{2}{3}"],
}
TESTS = ("gsm8k", "math", "countdown", "aime24", "amc23_40", "math500", "minerva", "olympiadbench")
data = made(make)


@needs_qwen
@pytest.mark.parametrize("prompt", PROMPTS)
def test_prompts_word_for_word(data: Path, prompt: str) -> None:
    found = samples("textmath", "train", data / "raw", train="math12k", prompt=prompt)[0]
    assert rendered(found) == PROMPTS[prompt]


@needs_qwen
def test_base_prompts_have_no_token_of_a_chat(data: Path) -> None:
    found = samples("textmath", "train", data / "raw", train="math12k", prompt="r1")[0]
    ids = qwen_tokenizer().encode(rendered(found))
    assert max(ids) < 151643  # the first special token


@pytest.mark.parametrize("name", GOLD)
def test_each_sets_columns(data: Path, name: str) -> None:
    found = samples("textmath", "train", data / "raw", train=name)
    assert [s.answer for s in found] == GOLD[name]
    assert found[0].id == f"{name}/train/0"
    assert {s.tags["kind"] for s in found} == {name}
    assert not any("{question}" in str(s.messages) for s in found)


def test_dapo_gives_each_problem_once_without_its_instructions(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = samples("textmath", "train", data / "raw", train="dapo17k", prompt="none")
    assert [s.messages[0].content for s in found] == [
        ("Find the least $n$ above 0.",),
        ("Find the least $n$ above 1.",),
    ]
    assert "train: 4 rows left out: duplicate question" in capsys.readouterr().err


@pytest.mark.parametrize("prompt", PROMPTS)
def test_gold_answers_earn_full_marks(data: Path, prompt: str) -> None:
    for name in GOLD:
        assert_gold_earns_all(
            "textmath", samples("textmath", "train", data / "raw", train=name, prompt=prompt)
        )
    assert_gold_earns_all(
        "textmath", samples("textmath", "test", data / "raw", test=TESTS, prompt=prompt)
    )


def test_gold_answers_may_be_numbers_and_lists(data: Path) -> None:
    found = samples("textmath", "test", data / "flat", test=("amc_83",))
    assert [s.answer for s in found] == [142.0]
    assert_gold_earns_all("textmath", found)
    several = Sample(id="o", messages=(), answer=["$x=-1$", "$x=2$"], tags={"answer": "math"})
    graders = Graders.of(find_task("textmath"))
    for said, grade in (("-1", 1.0), ("2", 1.0), ("1", 0.0)):
        assert graders.grade("strict", f"<answer>{said}</answer>", several) == grade


def test_levels(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = samples("textmath", "train", data / "raw", train="math", levels=(3, 5))
    assert [s.tags["level"] for s in found] == ["Level 3", "Level 5"]
    assert "1 rows left out: another level" in capsys.readouterr().err
    test = samples("textmath", "test", data / "raw", test=("math",), levels=(1, 5))
    assert [s.tags["level"] for s in test] == ["Level 4"]  # not that of `Level ?`


def test_a_set_without_splits_is_split_by_hash(data: Path) -> None:
    train = samples("textmath", "train", data / "flat", train="asdiv")
    test = samples("textmath", "test", data / "flat", test=("asdiv",))
    assert (len(train), len(test)) == (37, 3)
    asked = [str(s.messages) for s in (*train, *test)]
    assert len(set(asked)) == 40
    own = samples("textmath", "test", data / "raw", test=("countdown",))
    assert len(own) == 1  # a folder with a test table of its own is not split again


def test_preparing_lists_what_is_left_out(data: Path, tmp_path: Path) -> None:
    found = {
        name: prepare("textmath", data / "raw", tmp_path / name, f"options.train={name}", *SPLIT)
        for name in ("countdown", "open_rs", "dapo17k")
    }
    assert found["countdown"]["train"] == {"countdown/train/1": "gold answer unreadable"}
    assert found["open_rs"]["train"] == {"open_rs/train/1": "incomplete row"}
    assert set(found["dapo17k"]["train"].values()) == {"duplicate question"}
    flat = prepare("textmath", data / "flat", tmp_path / "flat", "options.test=[olympiadbench]")
    assert flat["test"] == {"olympiadbench/test/1": "incomplete row"}


SPLIT = ("options.test=[aime24]",)


def test_a_prepared_folder_obeys_the_options(data: Path, tmp_path: Path) -> None:
    more = ("options.train=math", f"options.test=[{','.join(TESTS)}]")
    assert prepare("textmath", data / "raw", tmp_path, *more) == {"train": {}, "test": {}}
    raw = samples("textmath", "test", data / "raw", test=("math", "aime24"))
    assert_same(samples("textmath", "test", tmp_path, test=("math", "aime24")), raw)
    found = samples("textmath", "train", tmp_path, train="math", levels=(3, 3))
    assert [s.answer for s in found] == ["\\frac{3}{2}"]
    with pytest.raises(DataError, match="train split was prepared without gsm8k; it has math"):
        samples("textmath", "train", tmp_path, train="gsm8k")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"train": "aime24"}, "aime24 has no train rows; use it for test"),
        ({"train": "asdiv", "data": None}, "is not on the hub; give its place with data=PATH"),
        (
            {"train": "deepscaler", "data": "flat"},
            "no table of deepscaler; expected deepscaler.jsonl",
        ),
    ],
)
def test_a_set_that_is_not_there(data: Path, options: dict[str, Any], problem: str) -> None:
    place = data / (options.get("data") or "raw")
    given = {"data": str(place), **{k: v for k, v in options.items() if k != "data" or v is None}}
    from vlrft.config import TaskConfig
    from vlrft.rollout.task import load_task

    with pytest.raises(DataError, match=problem):
        load_task(TaskConfig(name="textmath", options=given), "train")


def test_an_unknown_set_is_named(data: Path) -> None:
    with pytest.raises(ValidationError, match="unknown set"):
        samples("textmath", "train", data / "raw", train="gsm9k")


def test_the_first_samples_are_of_every_set(data: Path) -> None:
    found = samples("textmath", "test", data / "flat", test=("asdiv", "amc_83", "gsm8k"))
    kinds = [s.tags["kind"] for s in found]
    assert kinds == ["asdiv", "amc_83", "gsm8k", "asdiv", "gsm8k", "asdiv", "gsm8k"]


def test_several_sets_are_measured_each_and_by_their_mean(data: Path) -> None:
    task = find_task("textmath")
    found = samples("textmath", "test", data / "raw", test=("math", "aime24"))
    graders = Graders.of(task)
    wrong = "math/test/0"

    def answer(sample: Sample) -> str:
        return "<answer>0</answer>" if sample.id == wrong else f"<answer>{sample.answer}</answer>"

    figures = compute_metrics(task, [graders.record(s, answer(s)) for s in found]).graded["strict"]
    assert {name: figure.score for name, figure in figures.items()} == {
        "mean": 0.75,  # of 1/2 and 1/1; of the answers two in three are right
        "math": 0.5,
        "aime24": 1.0,
    }
    twice = [graders.record(s, text) for s in found for text in (answer(s), "<answer>0</answer>")]
    figures = compute_metrics(task, twice).graded["strict"]
    assert {name: figure.score for name, figure in figures.items()} == {
        "mean": 0.375,
        "math avg@2": 0.25,
        "math pass@2": 0.5,
        "aime24 avg@2": 0.5,
        "aime24 pass@2": 1.0,
    }


@needs_shared
def test_the_real_sets_load_and_their_gold_answers_are_read(tmp_path: Path) -> None:
    """All but three of 4,400: two that no reader could, and one that our own does not."""
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
    found = samples("textmath", "test", tmp_path / "out", test=sets.split(","))
    counts = dict.fromkeys(sets.split(","), 0)
    for sample in found:
        counts[sample.tags["kind"]] += 1
    exact = {k: counts[k] for k in ("aime24", "amc_83", "math500")}
    assert exact == {"aime24": 30, "amc_83": 83, "math500": 500}
    assert counts["minerva"] >= 271
    assert counts["olympiadbench"] >= 673
