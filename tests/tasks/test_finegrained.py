"""Few-shot classification: raw forms, k-shot sampling, prompts word for word, and answers that the published grader accepts by containment."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.makers.finegrained import NAMES, PROBLEM, make
from tests.fixtures.qwen_tokenizer import ASSISTANT, SYSTEM, USER, needs_qwen, render
from tests.tasks.loaded import (
    SHARED,
    assert_gold_earns_all,
    assert_same,
    dataset_folder,
    load_samples,
    needs_shared,
    prepare,
)
from vlrft.evaluation.evaluate import compute_metrics
from vlrft.plugins.find import find_task
from vlrft.schema import DataError, Sample
from vlrft.scoring.graders import Graders

SETS = {"flowers102": 102, "pets37": 37, "fgvc_aircraft100": 100, "cars196": 196}
data = dataset_folder(make)


def pets(split: str, data: Path, **options: Any) -> Any:
    return load_samples("finegrained", split, data, dataset="pets37", **options)


@needs_qwen
def test_prompts_word_for_word(data: Path) -> None:
    form = (
        "Output the thinking process in <think> </think> and final answer in <answer> </answer> "
        "tags.The output answer format should be as follows:\n<think> ... </think> <answer>species "
        "name</answer>\nPlease strictly follow the format."
    )
    question = "This is an image containing a pet. Please identify the species of the pet based on the image.\n"
    train = pets("train", data / "raw", prompt="released")[0]
    assert render(train) == f"{SYSTEM}{USER}{question}{form}{ASSISTANT}"
    test = pets("test", data / "raw", prompt="released")[0]
    assert render(test) == f"{SYSTEM}{USER}<image>\n{question}{form}{ASSISTANT}"
    hub = pets("train", data / "hub", prompt="released")[0]
    assert render(hub) == f"{SYSTEM}{USER}{PROBLEM}{ASSISTANT}"
    assert render(pets("test", data / "raw")[0]) == (
        f"{SYSTEM}{USER}This is an image of a pet. What is the species of the pet?\nThink first, "
        f"between <think> and </think>. Then give the name, and nothing else, between <answer> and "
        f"</answer>.{ASSISTANT}"
    )


def test_raw_and_prepared_samples_are_equal(data: Path, tmp_path: Path) -> None:
    test = pets("test", data / "raw")
    assert [s.answer for s in test] == [*NAMES, NAMES[0]]
    for raw, split in (("hub", "train"), ("raw", "train"), ("raw", "test")):
        samples = pets(split, data / raw)
        assert_gold_earns_all("finegrained", samples)
        prepare("finegrained", data / raw, tmp_path / raw, "options.dataset=pets37")
        assert_same(pets(split, tmp_path / raw), samples)
    with pytest.raises(DataError, match="is from pets37; set options"):
        load_samples("finegrained", "test", tmp_path / "raw", dataset="cars196")[0]


def test_without_a_list_any_name_is_a_class_and_a_number_is_an_error(
    data: Path, tmp_path: Path
) -> None:
    for name in ("train/American_Bulldog/1.png", "train/persian/1.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes((data / "raw/images/Pet_0.jpg").read_bytes())
    assert {s.answer for s in pets("train", tmp_path, k=1)} == {"american_bulldog", "persian"}
    (tmp_path / "test.jsonl").write_text('{"image": "train/persian/1.png", "label": 3}\n')
    with pytest.raises(DataError, match=r"list the names in classes.txt, label 0 first"):
        pets("test", tmp_path)
    (tmp_path / "test.jsonl").write_text('{"image": "train/persian/1.png", "class": "persian"}\n')
    assert pets("test", tmp_path)[0].answer == "persian"


def test_k_images_of_each_class_are_drawn_by_seed(data: Path) -> None:
    def ids(**options: Any) -> list[str]:
        return [s.id for s in pets("train", data / "raw", **options)]

    assert Counter(s.answer for s in pets("train", data / "raw", k=2)) == dict.fromkeys(NAMES, 2)
    assert len(ids(k=None)) == 15
    assert ids(k=2) == ids(k=2) != ids(k=2, seed=1)
    with pytest.raises(DataError, match="class 'abyssinian' has 5 images, fewer than k 6"):
        ids(k=6)


def test_a_misspelt_class_is_listed_and_the_others_are_prepared(data: Path, tmp_path: Path) -> None:
    rows = [("persian", k) for k in range(1, 6)] + [("Abyssinian", k) for k in range(1, 5)]
    lines = [{"image": f"train/{name}/{k}.png".lower(), "class": name} for name, k in rows]
    lines[1]["class"] = "\ud800"
    for line in lines:
        path = tmp_path / "raw" / line["image"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(next((data / "raw/train/Persian").glob("*.png")).read_bytes())
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "raw/train.jsonl").write_text(text)
    options = ["options.dataset=pets37"]
    defects = prepare("finegrained", tmp_path / "raw", tmp_path / "out", *options)
    assert defects == {"train": {"train/persian/2.png": "class with too few images"}}
    rows_file = (tmp_path / "out/train.jsonl").read_text().splitlines()
    assert Counter(json.loads(line)["answer"] for line in rows_file) == {
        "persian": 4,
        "abyssinian": 4,
    }


def test_rows_that_cannot_be_used_are_listed(data: Path, tmp_path: Path) -> None:
    defects = prepare("finegrained", data / "broken", tmp_path / "out", "options.dataset=pets37")
    assert defects == {
        "test": {"gone.jpg": "image missing or unreadable", "Pet_0.jpg": "incomplete row"}
    }


def test_metrics_by_hand(data: Path) -> None:
    samples = pets("test", data / "raw")
    answers = ["Abyssinian", "persian", "", "a cat"]  # right, another class, none, none
    graders = Graders.of(find_task("finegrained"))
    records = [
        graders.record(s, f"<answer>{a}</answer>") for s, a in zip(samples, answers, strict=True)
    ]
    metrics = compute_metrics(find_task("finegrained"), records).scores
    assert metrics["accuracy"].score == 0.25
    assert metrics["accuracy (official)"].score == 0.5  # the empty answer is right


@needs_shared
@pytest.mark.parametrize(
    ("dataset", "answer", "official"),
    [(name, "", 1.0) for name in SETS]
    + [
        ("cars196", "2012", 0.5912),
        ("cars196", "201", 0.6803),
        ("fgvc_aircraft100", "200", 0.131),
        ("pets37", "ter", 0.160),
        ("flowers102", "low", 0.151),
    ],
)
def test_the_published_grader_gives_marks_to_a_constant_answer(
    dataset: str, answer: str, official: float
) -> None:
    """On the official test sets; the strict grader gives none."""
    lines = (SHARED / f"classification/{dataset}_test.jsonl").read_text("utf-8").splitlines()
    names = (SHARED / f"classification/{dataset}_classes.txt").read_text("utf-8").splitlines()
    assert len(names) == SETS[dataset]
    gold_answers = [names[json.loads(line)["label"]] for line in lines]
    graders = Graders.of(find_task("finegrained"))
    completion = f"<think></think><answer>{answer}</answer>"
    grades = {
        gold: [
            graders.grade(g, completion, Sample(id=gold, messages=(), answer=gold))
            for g in graders.rewards
        ]
        for gold in set(gold_answers)
    }
    strict, published = zip(*(grades[gold] for gold in gold_answers), strict=True)
    assert sum(strict) == 0
    assert sum(published) / len(gold_answers) == pytest.approx(official, abs=5e-4)


@needs_shared
def test_label_files_are_scored_without_their_images() -> None:
    samples = load_samples(
        "finegrained", "test", SHARED / "classification/cars196_test.jsonl", dataset="cars196"
    )
    assert len(samples) == 8041


def test_of_a_folder_with_several_datasets_the_requested_one_is_read(tmp_path: Path) -> None:
    for name, label in (("pets37", "Persian"), ("cars196", "2012 Audi S5 Coupe")):
        (tmp_path / f"{name}_classes.txt").write_text(f"{label}\n")
        (tmp_path / f"{name}_test.jsonl").write_text('{"image": "1.jpg", "label": 0}\n')
    task = find_task("finegrained")
    for name, label in (("pets37", "Persian"), ("cars196", "2012 Audi S5 Coupe")):
        options = task.options(dataset=name, data=str(tmp_path))
        split: Any = task.load("test", options)
        (only,) = split.without_images()
        assert only.answer == label
