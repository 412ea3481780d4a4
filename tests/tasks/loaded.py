"""Samples of a pack from a made data set, raw and prepared, as the commands load them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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

SHARED = Path(__file__).parents[3] / "shared" / "data"  # published outputs, where they are at hand
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="no published outputs at hand")


def made(make: Callable[[Path], object], inside: str = ".") -> Any:
    """A fixture: a folder of raw forms in small, or the one `inside` it, made once a module."""

    @pytest.fixture(scope="module")
    def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
        found = tmp_path_factory.mktemp("made")
        make(found)
        return found / inside

    return folder


def samples(pack: str, split: str, data: Path, **options: Any) -> Sequence[Sample]:
    config = TaskConfig(name=pack, options={"data": str(data), **options})
    return load_task(config, split).samples


def prepare(pack: str, data: Path, out: Path, *more: str) -> dict[str, dict[str, str]]:
    """Prepares what there is; split -> id -> why a row was left out."""
    assert main(["data", "prepare", pack, *more, "--from", str(data), "--out", str(out)]) == 0
    found: dict[str, dict[str, str]] = {}
    for path in sorted(out.glob("*.defects.jsonl")):
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        found[path.name.split(".")[0]] = {row["id"]: row["reason"] for row in rows}
    return found


def assert_same(one: Sequence[Sample], other: Sequence[Sample]) -> None:
    """Equal in everything that a policy sees and a grader reads."""
    assert len(one) == len(other) > 0
    for a, b in zip(one, other, strict=True):
        assert (a.id, a.messages, a.answer, a.tags) == (b.id, b.messages, b.answer, b.tags)
        assert [i.tobytes() for i in a.images] == [i.tobytes() for i in b.images]


def assert_gold_earns_all(pack: str, found: Sequence[Sample]) -> None:
    """The gold completion earns 1.0 of every reward that applies, and of the strict grader."""
    task = find_task(pack)
    rewards = {name: find_reward(name) for name in task.rewards}
    assert len(found)
    for sample in found:
        text = gold_text(task, sample)
        given = {name: reward(text, sample) for name, reward in rewards.items()}
        assert {v for v in given.values() if v is not None} == {1.0}, (sample.id, given)
        assert Graders.of(task).grade("strict", text, sample) == 1.0


def published(path: str) -> list[dict[str, Any]]:
    lines = (SHARED / path).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def assert_published_verdicts(path: str, reward: str, right: int, of: int) -> None:
    """The official grader takes for right what the authors' scorer did, in each of their published outputs."""
    grade = find_reward(reward)
    rows = published(path)
    given = [
        grade(r["output"], Sample(id=r["id"], messages=(), answer=r["ground_truth"])) == 1.0
        for r in rows
    ]
    assert given == [r["published_correct"] for r in rows]
    assert (sum(given), len(given)) == (right, of)
