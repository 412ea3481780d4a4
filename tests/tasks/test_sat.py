"""SAT -> CV-Bench: raw parquet, prompts word for word, metrics by hand and as published."""

from __future__ import annotations

from pathlib import Path

import pytest
from vlrft.tasks.sat.metrics import cvbench as cvbench_score

from tests.fixtures.makers._pictures import encode, things
from tests.fixtures.makers._tables import write_bytes, write_jsonl, write_parquet
from tests.fixtures.makers.sat import BENCH, cvbench, make, sat_row
from tests.fixtures.qwen_tokenizer import ASSISTANT, PICTURE, SYSTEM, USER, needs_qwen, render
from tests.tasks.loaded import (
    assert_gold_earns_all,
    assert_same,
    dataset_folder,
    load_samples,
    prepare,
)
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.plugins.find import find_task
from vlrft.schema import IMAGE, Record
from vlrft.scoring.graders import Graders

BASE = (
    "A conversation between User and Assistant. The user asks a question about the image, and the "
    "Assistant solves it. The assistant first thinks about the reasoning process in the mind and then "
    "provides the user with the answer.\nUser: {} \nAssistant: Let me solve this step by step.\n<think>"
)
data = dataset_folder(make)


@needs_qwen
def test_released_prompts_word_for_word(data: Path) -> None:
    def prompt_of(split: str, form: str) -> str:
        return render(load_samples("sat", split, data / "raw", prompt="released", form=form)[0])

    question = (
        "Answer in natural language. Is the ball left or right? Choose between the following "
        "options: right or left"
    )
    assert prompt_of("train", "chat") == (
        f"{SYSTEM}{USER}<image> {question}  Output the thinking process in <think> </think> and final answer "
        f"(option) in <answer> </answer> tags.{ASSISTANT}"
    )
    assert prompt_of("train", "base") == f"{PICTURE}<image>{BASE.format(' ' + question)}"
    bench = "How many balls are in the image? Select from the following choices.\n(A) 3\n(B) 1\n(C) 2\n(D) 0"
    assert prompt_of("test", "chat") == (
        f"{SYSTEM}{USER}{bench}\nOutput the thinking process in <think> </think> and final answer in "
        f"<answer> </answer> tags.{ASSISTANT}"
    )
    assert prompt_of("test", "base") == f"{PICTURE}<image>{BASE.format(bench)}"


@needs_qwen
def test_clean_prompts(data: Path) -> None:
    options = "(A) right\n(B) left"
    assert render(load_samples("sat", "train", data / "raw")[0]) == (
        f"{SYSTEM}{USER}Is the ball left or right?\n{options}\nThink first, between <think> and "
        f"</think>. Then give the letter of the right option between <answer> and </answer>.{ASSISTANT}"
    )
    base = render(load_samples("sat", "train", data / "raw", form="base")[0])
    assert base.startswith(f"{PICTURE}A conversation between User and Assistant.")
    assert base.endswith(f"\nUser: Is the ball left or right?\n{options}\nAssistant: <think>")


@pytest.mark.parametrize("prompt", ["clean", "released"])
@pytest.mark.parametrize("form", ["chat", "base"])
def test_gold_answers_earn_all(data: Path, prompt: str, form: str) -> None:
    for split, count in (("train", 3), ("test", 4)):
        samples = load_samples("sat", split, data / "raw", prompt=prompt, form=form)
        assert len(samples) == count
        assert_gold_earns_all("sat", samples)


def test_prepared_samples_equal_the_raw_ones_and_pairs_of_pictures_are_left_out(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = {split: load_samples("sat", split, data / "raw") for split in ("train", "test")}
    assert "train: 1 row left out: more than one image" in capsys.readouterr().err
    assert prepare("sat", data / "raw", tmp_path / "out") == {
        "train": {"train/2": "more than one image"},
        "test": {},
    }
    for split, raw_samples in raw.items():
        assert_same(load_samples("sat", split, tmp_path / "out"), raw_samples)


def test_rows_and_seed_take_effect_when_the_data_are_prepared(data: Path, tmp_path: Path) -> None:
    others = [s.tags["options"] for s in load_samples("sat", "train", data / "raw", seed=3)]
    prepare("sat", data / "raw", tmp_path / "out", "options.rows=3", "options.seed=3", "--split", "train")  # fmt: skip
    samples = load_samples("sat", "train", tmp_path / "out", rows=1, seed=0)
    assert [s.tags["options"] for s in samples] == others[:2]
    raw = [s.tags["options"] for s in load_samples("sat", "train", data / "raw", seed=0)]
    assert raw[:2] != others[:2]


def test_rows_that_cannot_be_used_are_listed(data: Path, tmp_path: Path) -> None:
    assert prepare("sat", data / "broken", tmp_path / "out") == {
        "train": {"train/1": "incomplete row", "train/2": "image missing or unreadable"},
        "test": {"1": "incomplete row"},
    }


def test_the_first_rows_include_those_that_are_left_out(data: Path) -> None:
    assert len(load_samples("sat", "train", data / "raw", rows=3)) == 2


def test_options_are_shuffled_by_seed_and_keep_their_commas(data: Path) -> None:
    orders = {
        load_samples("sat", "train", data / "raw", seed=seed)[1].tags["options"]
        for seed in range(8)
    }
    assert len(orders) > 2
    assert all(sorted(o.split("\n"))[0] == "left, then up" for o in orders)


def test_metrics_by_hand(data: Path) -> None:
    samples = load_samples("sat", "test", data / "raw")
    answers = ["A", "below", "B", "(A) lamp"]  # right, wrong, right, right
    graders = Graders.of(find_task("sat"))
    records = [
        graders.record(s, f"<answer>{a}</answer>") for s, a in zip(samples, answers, strict=True)
    ]
    metrics = {
        k: f.score for k, f in compute_metrics(find_task("sat"), records).graded["strict"].items()
    }
    assert list(metrics) == [
        "total",
        "Count",
        "Relation",
        "Depth",
        "Distance",
        "task_macro",
        "cvbench",
    ]
    assert (metrics["total"], metrics["Relation"], metrics["task_macro"]) == (0.75, 0.0, 0.75)
    assert metrics["cvbench"] == ((1 + 0) / 2 + 1) / 2


@pytest.mark.parametrize(
    ("row", "micro", "macro"),
    [
        ((54.69, 22.46, 0.16, 31.66), 29.11, 27.2),
        ((60.02, 68.92, 55.00, 45.83), 57.85, 57.4),
        ((59.64, 66.76, 54.16, 56.66), 59.48, 59.3),
        ((66.62, 83.23, 81.66, 75.50), 76.16, 76.8),
    ],
)
def test_published_totals_are_micro_averages(
    row: tuple[float, ...], micro: float, macro: float
) -> None:
    """788, 650, 600 and 600 items of a task; the published 31.38 of the base row is not the average of its parts."""
    records = [
        Record(
            id=f"{kind}/{k}",
            output="",
            grades={"strict": float(k < round(share * count / 100))},
            tags={"kind": kind, "source": "COCO"},
        )
        for kind, count, share in zip(
            ("Count", "Relation", "Depth", "Distance"), (788, 650, 600, 600), row, strict=True
        )
        for k in range(count)
    ]
    task = find_task("sat")
    assert task.metrics is not None
    metrics = task.metrics(records, "strict")
    total, mean = metrics["total"], metrics["task_macro"]
    assert sum(total.values) / len(total.values) * 100 == pytest.approx(micro, abs=0.03)
    assert mean.aggregate is not None
    assert mean.aggregate(range(len(mean.values))) * 100 == pytest.approx(macro, abs=0.06)


def test_the_cvbench_score_weights_sources_not_items() -> None:
    rows = [("ADE20K", 1), ("ADE20K", 1), ("ADE20K", 1), ("COCO", 0), ("Omni3D", 1), ("Omni3D", 0)]
    records = [
        Record(id=str(k), output="", grades={"strict": grade}, tags={"source": source})
        for k, (source, grade) in enumerate(rows)
    ]
    metrics = cvbench_score(records, "strict")
    assert metrics.aggregate is not None
    assert metrics.aggregate(range(6)) == 0.5
    assert metrics.aggregate([0, 1]) == 1.0
    assert len(BENCH) == 4


def test_an_index_that_begins_again_in_the_second_table_keeps_every_question(
    data: Path, tmp_path: Path
) -> None:
    rows = [cvbench(k) for k in range(4)]
    for row in rows[2:]:
        row["idx"] -= 2
    for part, some in (("2d", rows[:2]), ("3d", rows[2:])):
        write_parquet(tmp_path / f"raw/test_{part}.parquet", some)
        twins = [{k: v for k, v in row.items() if k != "image"} for row in some]
        write_jsonl(tmp_path / f"raw/test_{part}.jsonl", twins)
    prepare("sat", tmp_path / "raw", tmp_path / "out", "--split", "test")
    samples = load_samples("sat", "test", tmp_path / "out")
    assert [s.id for s in samples] == ["cvbench/0", "cvbench/1", "cvbench/3D/0", "cvbench/3D/1"]
    raw = load_samples("sat", "test", data / "raw")
    assert [s.messages for s in samples] == [s.messages for s in raw]


def test_jsonl_alone_takes_its_pictures_from_the_folder_of_build_img(tmp_path: Path) -> None:
    """`filename` is a name below img/2D/TASK or img/3D/TASK."""
    row = cvbench(0)
    picture = row.pop("image")["bytes"]
    write_jsonl(tmp_path / "test_2d.jsonl", [row | {"filename": "img/2D/count/ade20k_10.png"}])
    write_bytes(tmp_path / "img/2D/count/ade20k_10.png", picture)
    (sample,) = load_samples("sat", "test", tmp_path)
    assert sample.images[0].size == (160, 120)


def test_the_own_test_of_sat_asks_about_both_pictures(tmp_path: Path) -> None:
    pictures = [encode(things(k + 2, k), "JPEG") for k in range(2)]
    rows = [
        sat_row(pictures[0], "Which is closer?", ["chair", "lamp"]) | {"question_type": "other"},
        sat_row(pictures[0], "How did the camera move?", ["left", "right"])
        | {"image_bytes": pictures, "question_type": "ego_movement"},
    ]
    for name in ("train", "test"):
        write_parquet(tmp_path / f"SAT_{name}.parquet", rows)
    one, two = load_samples("sat", "test", tmp_path)
    assert (len(one.images), len(two.images)) == (1, 2)
    assert two.messages[0].content.count(IMAGE) == 2
    assert_gold_earns_all("sat", [one, two])
    assert len(load_samples("sat", "train", tmp_path)) == 1
    assert len(load_samples("sat", "train", tmp_path, images="any")) == 2
    graders = Graders.of(find_task("sat"))
    records = [graders.record(s, "<answer>chair</answer>") for s in (one, two)]
    scores = compute_metrics(find_task("sat"), records).graded["strict"]
    assert {name: metric.score for name, metric in scores.items()} == {
        "total": 0.5,
        "other": 1.0,
        "ego_movement": 0.0,
    }


@pytest.mark.parametrize("folders", [("SAT", "CV-Bench"), ("b", "a")])
def test_the_own_test_of_sat_next_to_cvbench_is_left_out(
    data: Path, tmp_path: Path, folders: tuple[str, str]
) -> None:
    own, bench = (tmp_path / "raw" / name for name in folders)
    row = sat_row(encode(things(2, 0), "JPEG"), "Which is closer?", ["chair", "lamp"])
    for name in ("train", "val", "test"):
        write_parquet(own / f"SAT_{name}.parquet", [row])
    for name in ("test_2d", "test_3d"):
        write_bytes(bench / f"{name}.parquet", (data / "raw" / f"{name}.parquet").read_bytes())
    assert_same(
        load_samples("sat", "test", tmp_path / "raw"), load_samples("sat", "test", data / "raw")
    )
    left_out = prepare("sat", tmp_path / "raw", tmp_path / "out", "--split", "test")["test"]
    assert list(left_out.values()) == ["question of SAT's own test next to CV-Bench"]


def test_a_question_without_a_kind_is_no_part_of_cvbench_s_means() -> None:
    rows = [("Count", "COCO", 1.0), ("Depth", "Omni3D", 1.0), (None, None, 0.0)]
    records = [
        Record(
            id=str(k),
            output="",
            grades={"strict": grade},
            tags={} if kind is None else {"kind": kind, "source": str(source)},
        )
        for k, (kind, source, grade) in enumerate(rows)
    ]
    scores = compute_metrics(find_task("sat"), records).graded["strict"]
    assert (scores["task_macro"].score, scores["cvbench"].score) == (1.0, 1.0)
    assert scores["total"].score == pytest.approx(2 / 3)
