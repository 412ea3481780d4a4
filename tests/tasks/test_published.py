"""Every published form of every data set is prepared, checked and shown, and gives the same rows as the set's first form; that
is evaluated, too, and of each pack one is trained on. `python -m tests.tasks.published_matrix` does all with all, and prints a
table."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.published.forms import forms_of
from tests.tasks.published_matrix import (
    CASES,
    RECORDS,
    STEPS,
    Case,
    cells,
    save_tiny_policy,
    table,
    use,
)

TRAINED = {  # one of each pack, and of those whose labels are read in several ways
    "geometry3k_hub",
    "geoqa_train",
    "counting_train",
    "sat_train",
    "virft_pets",
    "pets_official",
    "flowers_mirror",
    "reasonseg",
    "gsm8k",
    "refcoco_vlm_r1",
    "virft_coco_few_shot",
}
PENDING: set[str] = set()
"""Record-form whose reader is not there yet; to be taken away when it is."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def first_rows() -> dict[str, Any]:
    """Record -> the rows of its first form."""
    return {}


def parameters() -> list[Any]:
    names = [(case, form, f"{case.record}-{form}") for case, form in cells()]
    names = [name for name in names if name[0].record != "alfred"]  # in tests/tasks/alfworld
    pending = pytest.mark.xfail(strict=True, reason="its reader is not there yet")
    return [
        pytest.param(case, form, id=name, marks=[pending] if name in PENDING else [])
        for case, form, name in names
    ]


@pytest.mark.parametrize(("case", "form"), parameters())
def test_a_published_form_works(
    case: Case, form: str, model: Path, first_rows: dict[str, Any], tmp_path: Path
) -> None:
    first = form == forms_of(RECORDS[case.record])[0]
    more = ("eval", "train")[: first + (first and case.record in TRAINED)]
    reasons = use(case, form, tmp_path, model, ("prepare", "check", "show", *more))
    assert {step: why for step, why in reasons.items() if why not in ("", "-")} == {}
    rows = prepared_rows(tmp_path / "prepared")
    every = first_rows.setdefault(case.record, rows)
    assert rows == {split: every[split] for split in case.splits}


def prepared_rows(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Question, gold answer and pictures of the rows of each prepared split; ids depend on the form."""
    splits = {}
    for path in sorted(p for p in folder.glob("*.jsonl") if "defects" not in p.name):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        splits[path.stem] = [(r["question"], r["answer"], digests(folder, r)) for r in rows]
    return splits


def digests(folder: Path, row: dict[str, Any]) -> list[str]:
    pictures = row.get("images") or []
    return [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in pictures]


def test_every_record_is_a_case() -> None:
    """All but those of which too little was seen to copy them."""
    assert set(RECORDS) - {case.record for case in CASES} == {"pets_mirror", "flowers_numbered"}


def test_the_table_has_a_row_for_each_form() -> None:
    fine = dict.fromkeys(STEPS, "")
    lines = table(
        {("a", "hub"): fine, ("a", "zip"): {**fine, "train": "no such file", "eval": "-"}}
    )
    assert lines[2:] == [
        "| a | hub | ok | ok | ok | ok | ok |",
        "| a | zip | ok | ok | ok | **no** | - |",
    ]


def test_labels_whose_names_are_numbers_are_not_taken_for_classes(
    model: Path, tmp_path: Path
) -> None:
    """nelorth/oxford-flowers names its labels by category: label 1 is category 10, the globe thistle, not the second class."""
    case = Case(record="flowers_numbered", splits={"train": 8})
    reasons = use(case, "snapshot", tmp_path, model, ("prepare",))
    rows = prepared_rows(tmp_path / "prepared").get("train", [])
    assert reasons["prepare"] or {row[1] for row in rows} == {"pink primrose", "globe thistle"}
