"""Samples of a pack from a small dataset that a test writes, raw and prepared, loaded as the commands load them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from vlrft.cli.main import main
from vlrft.config import TaskConfig
from vlrft.plugins.find import find_reward, find_task
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import load_task
from vlrft.schema import Sample
from vlrft.scoring.graders import Graders

SHARED = Path(__file__).parents[3] / "shared" / "data"  # published outputs; not in every checkout
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the published outputs are not here")


def dataset_folder(make: Callable[[Path], object], inside: str = ".") -> Any:
    """A fixture: a folder with small raw forms, or the folder `inside` it, written once a module."""

    @pytest.fixture(scope="module")
    def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
        root = tmp_path_factory.mktemp("dataset")
        make(root)
        return root / inside

    return folder


def load_samples(pack: str, split: str, data: Path, **options: Any) -> Sequence[Sample]:
    config = TaskConfig(name=pack, options={"data": str(data), **options})
    return load_task(config, split).samples


def prepare(pack: str, data: Path, out: Path, *more: str) -> dict[str, dict[str, str]]:
    """Prepares every split of the data; split -> id -> the reason why a row was left out."""
    assert main(["data", "prepare", pack, *more, "--from", str(data), "--out", str(out)]) == 0
    by_name: dict[str, dict[str, str]] = {}
    for path in sorted(out.glob("*.defects.jsonl")):
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        by_name[path.name.split(".")[0]] = {row["id"]: row["reason"] for row in rows}
    return by_name


def assert_same(one: Sequence[Sample], other: Sequence[Sample]) -> None:
    """The samples are equal in everything that a policy or a grader reads."""
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        assert (a.id, a.messages, a.answer, a.tags) == (b.id, b.messages, b.answer, b.tags)
        assert [i.tobytes() for i in a.images] == [i.tobytes() for i in b.images]


def assert_gold_earns_all(pack: str, samples: Sequence[Sample]) -> None:
    """The gold completion earns 1.0 of every reward that applies, and of the strict grader."""
    task = find_task(pack)
    rewards = {name: find_reward(name) for name in task.rewards}
    assert len(samples)
    for sample in samples:
        text = gold_text(task, sample)
        scores = {name: reward(text, sample) for name, reward in rewards.items()}
        parts = [v.values() if isinstance(v, Mapping) else [v] for v in scores.values()]
        assert {v for part in parts for v in part if v is not None} == {1.0}, (sample.id, scores)
        assert Graders.of(task).grade("strict", text, sample) == 1.0


def read_published(path: str) -> list[dict[str, Any]]:
    lines = (SHARED / path).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def assert_published_verdicts(path: str, reward: str, right: int, of: int) -> None:
    """The official grader agrees with the authors' scorer on each of their published outputs."""
    grade = find_reward(reward)
    rows = read_published(path)
    verdicts = [
        grade(r["output"], Sample(id=r["id"], messages=(), answer=r["ground_truth"])) == 1.0
        for r in rows
    ]
    assert verdicts == [r["published_correct"] for r in rows]
    assert (sum(verdicts), len(verdicts)) == (right, of)
