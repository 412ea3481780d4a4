"""Synthetic rows of every pack that makes them: in the published form, right, repeatable, and apart from the test rows."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.fixtures.published.record import load_records
from tests.fixtures.published.tables import known_features
from tests.tasks.published_matrix import call
from vlrft.cli.main import main
from vlrft.cli.synthetic_rows import synthetic_packs
from vlrft.config.load import task_config
from vlrft.data import Dataset, Draw, Synthetic
from vlrft.data.synthetic import write_published
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import load_task
from vlrft.scoring.graders import Graders

PACKS = synthetic_packs()
ROWS = 8  # of each split


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Pack -> its prepared rows of seed 3."""
    root = tmp_path_factory.mktemp("synthetic")
    for pack in PACKS:
        assert not prepare(pack, root / pack, 3)
    return {pack: root / pack for pack in PACKS}


def generator(pack: str) -> Synthetic:
    load = find_task(pack).load
    assert isinstance(load, Dataset)
    assert load.synthetic is not None
    return load.synthetic


def prepare(pack: str, out: Path, seed: int) -> str:
    arguments = ("--synthetic", str(ROWS), "--seed", str(seed), "--out", str(out))
    return call("data", "prepare", pack, *arguments)


def rows(folder: Path, split: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]


def pictures(folder: Path, split: str) -> set[str]:
    """The names of a split's pictures, which are those of their content."""
    return {Path(name).stem for row in rows(folder, split) for name in row["images"]}


def digests(folder: Path) -> Mapping[str, str]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}


@pytest.mark.parametrize("pack", PACKS)
def test_every_row_is_read_and_every_grader_gives_its_gold_answer_full_marks(
    pack: str, made: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The strict grader also with the clean prompt; the official one may want the released prompt's form of answers."""
    assert main(["check", pack, f"options.data={made[pack]}"]) == 0
    output = capsys.readouterr()
    task = find_task(pack)
    graders = Graders.of(task)
    assert set(task.graders) == {"strict", "official"}
    for split in task.splits:
        assert f"{split}: {ROWS} of {ROWS} gold answers earn full marks" in output.out
        assert f"{split}: synthetic rows ({ROWS} made with seed 3)" in output.err
        released = task_config(pack, [f"options.data={made[pack]}", "options.prompt=released"])
        for sample in load_task(released, split).samples:
            record = graders.record(sample, gold_text(task, sample))
            assert record.grades["strict"] == 1.0
            # an overlap of boxes that are rounded to thousandths
            assert record.grades["official"] == pytest.approx(1.0, abs=0.03), sample.answer


@pytest.mark.parametrize("command", ["check", "data show", "data prepare"])
def test_a_folder_that_was_prepared_for_another_pack_is_refused(
    command: str, made: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(made["sat"])
    place = ["--from", other] if command == "data prepare" else [f"options.data={other}"]
    out = ["--out", str(tmp_path)] if command == "data prepare" else []
    assert main([*command.split(), "geometry3k", *place, *out]) == 1
    refused = f"{other}: holds the data of task sat, not of geometry3k"
    output = capsys.readouterr()
    assert refused in output.out + output.err
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize("pack", PACKS)
def test_the_same_seed_makes_the_same_files_and_another_one_other_pictures(
    pack: str, made: Mapping[str, Path], tmp_path: Path
) -> None:
    task = find_task(pack)
    for split in task.splits:
        first = digests(made[pack] / "published" / split)
        again = [
            digests(write_published(generator(pack), split, ROWS, seed, task.options(), tmp_path))
            for seed in (3, 4)
        ]
        assert again[0] == first
        of_pictures = {name for name in first if name.endswith((".jpg", ".png", ".parquet"))}
        assert of_pictures
        assert all(again[1][name] != first[name] for name in of_pictures)


@pytest.mark.parametrize("pack", PACKS)
def test_no_template_question_or_picture_of_training_is_in_the_test(
    pack: str, made: Mapping[str, Path]
) -> None:
    task = find_task(pack)
    templates = generator(pack).templates
    assert set(templates) == set(task.splits)
    assert all(len(names) >= 2 for names in templates.values())
    asked = {s: {row["question"] for row in rows(made[pack], s)} for s in task.splits}
    for split, other in itertools.combinations(task.splits, 2):
        assert not pictures(made[pack], split) & pictures(made[pack], other)
        if max(map(len, asked.values())) > 1:  # a pack may ask one question of every picture
            assert not asked[split] & asked[other]


@pytest.mark.parametrize("pack", PACKS)
def test_a_pack_has_thoughts_for_all_its_rows_or_for_none(
    pack: str, made: Mapping[str, Path]
) -> None:
    for split in find_task(pack).splits:
        thoughts = [row.get("thought", "") for row in rows(made[pack], split)]
        assert all(thoughts) if generator(pack).thought else not any(thoughts)
        assert (made[pack] / f"published/{split}.thoughts.jsonl").exists() == any(thoughts)


@pytest.mark.parametrize("pack", PACKS)
def test_tables_have_the_columns_of_the_published_ones(pack: str, made: Mapping[str, Path]) -> None:
    """Without the columns of unknown type. Files that are no tables are named as published."""
    records = [r for r in load_records().values() if r.pack == pack]
    published = {frozenset(f["name"] for f in known_features(r)) for r in records if r.features}
    names = {
        PurePosixPath(name)
        for r in records
        for name in (*r.files, *(file.path for file in r.layout))
    }
    files = [p for p in (made[pack] / "published").glob("*/**/*.*") if p.name != "SYNTHETIC.txt"]
    for path in files:
        if path.suffix == ".parquet":
            assert frozenset(pq.read_schema(path).names) in published, path
        assert any(path.match(str(name)) for name in names), path
    assert files


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["digits"], "task digits has no generator of synthetic rows; these have one: .*finegrained"),
        (["finegrained"], "say where to write with --out DIR"),
        (["finegrained", "--out", "x", "--from", "y"], "--from: cannot be combined with --synthetic"),
        (["finegrained", "--out", "x", "--count", "train=2"], "--count: cannot be combined with"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused_in_one_line(arguments: Sequence[str], problem: str) -> None:
    reason = call("data", "prepare", *arguments, "--synthetic", "4")
    assert re.search(problem, reason)


def test_a_folder_that_is_not_synthetic_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "published/train").mkdir(parents=True)
    (tmp_path / "published/train/mine.txt").write_text("mine")
    assert "has no SYNTHETIC.txt" in prepare("finegrained", tmp_path, 0)
    assert (tmp_path / "published/train/mine.txt").read_text() == "mine"


def test_a_split_of_other_rows_is_not_taken_for_the_one_that_is_asked_for(
    made: Mapping[str, Path], tmp_path: Path
) -> None:
    folder = made["sat"]
    assert not prepare("sat", folder, 3)
    others = (("--synthetic", "8", "--seed", "4"), ("--synthetic", "9", "--seed", "3"), ())
    for arguments in others:
        line = call("data", "prepare", "sat", *arguments, "--out", str(folder))
        assert "the train split has synthetic rows (8 made with seed 3)" in line
        assert "--overwrite" in line
    real = tmp_path / "real"
    shutil.copytree(folder, real)
    manifest = json.loads((real / "manifest.json").read_text())
    for split in manifest["splits"].values():
        split["notes"] = []
    (real / "manifest.json").write_text(json.dumps(manifest))
    assert "the train split has published rows" in prepare("sat", real, 3)


def test_templates_of_two_splits_are_refused_and_each_is_used_equally_often() -> None:
    def make(draw: Draw) -> tuple[int, float]:
        return draw.index, draw.rng.random()

    with pytest.raises(ValueError, match="templates of several splits: a"):
        Synthetic(templates={"train": {"a": make}, "test": {"a": make}}, write=lambda *_: None)
    used = []
    templates = {name: lambda draw, name=name: used.append(name) for name in "abc"}
    synthetic = Synthetic(templates={"train": templates}, write=lambda *_: None)
    synthetic.rows("train", 30, 0, None)
    assert {name: used.count(name) for name in "abc"} == dict.fromkeys("abc", 10)
    assert len({tuple(used[k : k + 3]) for k in range(0, 30, 3)}) > 1


@pytest.mark.parametrize("pack", ["geometry3k", "geoqa", "lisa", "sat"])
def test_every_split_asks_in_words_of_training_and_in_sentences_of_its_own(pack: str) -> None:
    """So that a policy of random weights, which has read the training rows alone, can answer the others."""
    asked = generator(pack).templates
    words = {s: {w for text in asked[s] for w in re.findall(r"\w+", text)} for s in asked}
    for split, other in itertools.combinations(asked, 2):
        assert not set(asked[split]) & set(asked[other])
        assert words[other] <= words["train"]
