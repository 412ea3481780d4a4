"""The HTML page of an evaluation, with the pictures of its samples where their data are still there."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.config import TaskConfig
from vlrft.evaluation.score import without_images
from vlrft.reporting.html.evaluation_page import choose_records, write_evaluation_page
from vlrft.rollout.task import load_task
from vlrft.schema import Record, Sample, VlrftError


def write_html(
    path: Path, results: Mapping[str, Any], records: Sequence[Record], task: TaskConfig | None
) -> None:
    """Writes the page of an evaluation. `results`: as in its JSON. `task`: loads the questions and pictures; where it is None
    or cannot, stderr says so, and the page is without them."""
    chosen = {record.id for record in choose_records(records, results)}
    samples, problem = list[Sample](), "the samples were not loaded; give --data"
    if task is not None:
        try:
            samples = list(_load_samples(task, str(results["split"]), chosen))
        except VlrftError as e:
            problem = str(e)
    if not samples:
        print(f"vlrft: {path} is without questions and pictures: {problem}", file=sys.stderr)
    write_evaluation_page(path, results, records, samples)


def _load_samples(task: TaskConfig, split: str, ids: set[str]) -> Iterator[Sample]:
    """The samples of these ids, of which alone the images are opened."""
    loaded = load_task(task, split)
    for k, sample in enumerate(without_images(loaded)):
        if sample.id in ids:
            yield loaded.samples[k]
