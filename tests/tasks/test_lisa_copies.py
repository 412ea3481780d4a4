"""ReasonSeg's copies with a mask a row: which split they hold, their targets, and the metrics of masks."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fixtures.published.forms import write
from tests.fixtures.published.record import load_records
from tests.tasks.loaded import load_samples
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text
from vlrft.schema import DataError, Record

masked = import_module("vlrft.tasks.lisa.masked")


@pytest.mark.parametrize("first", [0, 1])
def test_a_mask_survives_its_runs(first: int) -> None:
    mask = np.random.default_rng(0).integers(0, 2, (7, 5), dtype=np.uint8)
    mask[0, 0] = first
    info = {"runs": masked.encode(mask), "size": [5, 7]}
    assert (masked.target_mask(info) == mask).all()
    assert sum(info["runs"]) == mask.size


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    record = load_records()["reasonseg_hub_val"]
    return Path(str(write(record, "snapshot", tmp_path_factory.mktemp("copy")).data))


def test_the_only_split_is_the_one_that_the_repository_is_named_after(copy: Path) -> None:
    """Its table is called test, but Ricky06662/ReasonSeg_val holds ReasonSeg's val."""
    samples = load_samples("lisa", "val", copy)
    assert [s.id for s in samples][:2] == ["val/0_7/0", "val/1_7/0"]
    assert samples[0].info["target"] == [10, 8, 40, 30]
    with pytest.raises(DataError, match="ReasonSeg_val: no test split; looked for"):
        load_samples("lisa", "test", copy)


def test_the_metrics_of_masks_read_the_copy(copy: Path) -> None:
    task = find_task("lisa")
    samples = load_samples("lisa", "val", copy)
    fields: dict[str, Any] = {"grades": {"strict": 1.0}}
    records = [
        Record(id=s.id, output=gold_text(task, s), answer=s.answer, tags=s.tags, info=s.info, **fields)
        for s in samples
    ]  # fmt: skip
    assert task.metrics is not None
    assert min(task.metrics(records, "strict")["gIoU"].values) > 0.9


def test_the_released_box_needs_polygons(copy: Path) -> None:
    with pytest.raises(DataError, match="first_shape needs ReasonSeg's polygons"):
        load_samples("lisa", "val", copy, box="first_shape")
