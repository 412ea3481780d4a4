"""Few-shot classification: raw forms, k-shot sampling, prompts word for word, what containment gives away."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.makers.finegrained import NAMES, PROBLEM, make
from tests.fixtures.qwen_tokenizer import ASSISTANT, SYSTEM, USER, needs_qwen, rendered
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

SETS = {"flowers102": 102, "pets37": 37, "fgvc_aircraft100": 100, "cars196": 196}
data = made(make)


def pets(split: str, data: Path, **options: Any) -> Any:
    return samples("finegrained", split, data, dataset="pets37", **options)


@needs_qwen
def test_prompts_word_for_word(data: Path) -> None:
    form = (
        "Output the thinking process in <think> </think> and final answer in <answer> </answer> "
        "tags.The output answer format should be as follows:\n<think> ... </think> <answer>species "
        "name</answer>\nPlease strictly follow the format."
    )
    asked = "This is an image containing a pet. Please identify the species of the pet based on the image.\n"
    train = pets("train", data / "raw", prompt="released")[0]
    assert rendered(train) == f"{SYSTEM}{USER}{asked}{form}{ASSISTANT}"
    test = pets("test", data / "raw", prompt="released")[0]
    assert rendered(test) == f"{SYSTEM}{USER}<image>\n{asked}{form}{ASSISTANT}"
    own = pets("train", data / "hub", prompt="released")[0]
    assert rendered(own) == f"{SYSTEM}{USER}{PROBLEM}{ASSISTANT}"
    assert rendered(pets("test", data / "raw")[0]) == (
        f"{SYSTEM}{USER}This is an image of a pet. What is the species of the pet?\nThink first, "
        f"between <think> and </think>. Then give the name, and nothing else, between <answer> and "
        f"</answer>.{ASSISTANT}"
    )


def test_raw_forms_and_their_prepared_ones(data: Path, tmp_path: Path) -> None:
    test = pets("test", data / "raw")
    assert [s.answer for s in test] == [*NAMES, NAMES[0]]
    for raw, split in (("hub", "train"), ("raw", "train"), ("raw", "test")):
        found = pets(split, data / raw)
        assert_gold_earns_all("finegrained", found)
        prepare("finegrained", data / raw, tmp_path / raw, "options.dataset=pets37")
        assert_same(pets(split, tmp_path / raw), found)
    with pytest.raises(DataError, match="is of pets37; set options"):
        samples("finegrained", "test", tmp_path / "raw", dataset="cars196")[0]


def test_without_a_list_names_are_names_and_numbers_need_one(data: Path, tmp_path: Path) -> None:
    for name in ("train/American_Bulldog/1.png", "train/persian/1.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes((data / "raw/images/Pet_0.jpg").read_bytes())
    assert {s.answer for s in pets("train", tmp_path, k=1)} == {"American Bulldog", "persian"}
    (tmp_path / "test.jsonl").write_text('{"image": "train/persian/1.png", "label": 3}\n')
    with pytest.raises(DataError, match=r"list the names in classes.txt, label 0 first"):
        pets("test", tmp_path)
    (tmp_path / "test.jsonl").write_text('{"image": "train/persian/1.png", "class": "persian"}\n')
    assert pets("test", tmp_path)[0].answer == "persian"


def test_k_images_a_class_drawn_by_seed(data: Path) -> None:
    def ids(**options: Any) -> list[str]:
        return [s.id for s in pets("train", data / "raw", **options)]

    assert Counter(s.answer for s in pets("train", data / "raw", k=2)) == dict.fromkeys(NAMES, 2)
    assert len(ids(k=None)) == 15
    assert ids(k=2) == ids(k=2) != ids(k=2, seed=1)
    with pytest.raises(DataError, match="class 'abyssinian' has 5 images, fewer than k 6"):
        ids(k=6)


def test_rows_that_cannot_be_used_are_listed(data: Path, tmp_path: Path) -> None:
    found = prepare("finegrained", data / "broken", tmp_path / "out", "options.dataset=pets37")
    assert found == {
        "test": {"gone.jpg": "image missing or unreadable", "Pet_0.jpg": "incomplete row"}
    }


def test_figures_by_hand(data: Path) -> None:
    found = pets("test", data / "raw")
    said = ["Abyssinian", "persian", "", "a cat"]  # right, another class, none, none
    graders = Graders.of(find_task("finegrained"))
    records = [graders.record(s, f"<answer>{a}</answer>") for s, a in zip(found, said, strict=True)]
    figures = compute_metrics(find_task("finegrained"), records).scores
    assert figures["accuracy"].score == 0.25
    assert figures["accuracy (official)"].score == 0.5  # the empty answer is right


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
def test_a_constant_answer(dataset: str, answer: str, official: float) -> None:
    """The published grader pays for it on the official test sets; the strict one does not."""
    lines = (SHARED / f"classification/{dataset}_test.jsonl").read_text("utf-8").splitlines()
    names = (SHARED / f"classification/{dataset}_classes.txt").read_text("utf-8").splitlines()
    assert len(names) == SETS[dataset]
    golds = [names[json.loads(line)["label"]] for line in lines]
    graders = Graders.of(find_task("finegrained"))
    shown = f"<think></think><answer>{answer}</answer>"
    paid = {
        gold: [
            graders.grade(g, shown, Sample(id=gold, messages=(), answer=gold))
            for g in graders.rewards
        ]
        for gold in set(golds)
    }
    strict, given = zip(*(paid[gold] for gold in golds), strict=True)
    assert sum(strict) == 0
    assert sum(given) / len(golds) == pytest.approx(official, abs=5e-4)


@needs_shared
def test_label_files_are_scored_without_their_images() -> None:
    found = samples(
        "finegrained", "test", SHARED / "classification/cars196_test.jsonl", dataset="cars196"
    )
    assert len(found) == 8041


def test_a_folder_of_several_sets_gives_the_one_that_is_asked_for(tmp_path: Path) -> None:
    for name, label in (("pets37", "Persian"), ("cars196", "Audi TT")):
        (tmp_path / f"{name}_classes.txt").write_text(f"{label}\n")
        (tmp_path / f"{name}_test.jsonl").write_text('{"image": "1.jpg", "label": 0}\n')
    found = find_task("finegrained")
    for name, label in (("pets37", "Persian"), ("cars196", "Audi TT")):
        options = found.options(dataset=name, data=str(tmp_path))
        split: Any = found.load("test", options)
        (only,) = split.without_images()
        assert only.answer == label
