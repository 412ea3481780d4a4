"""Rows of tables: parquet, arrow, jsonl, json, csv, and datasets of the hub."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from vlrft.schema import DataError

Cells = Mapping[str, Any]
"""A raw row of a table: column -> value."""
SUFFIXES = (".parquet", ".arrow", ".jsonl", ".json", ".csv")


def read_table(file: BinaryIO, name: str) -> Iterator[Cells]:
    """The rows of a table, whose kind is given by its suffix. Raises DataError, which names the file and the line."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in (".parquet", ".arrow"):
        yield from _arrow_rows(file, name, suffix)
        return
    try:
        text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise DataError(f"{name}: not UTF-8 at byte {e.start}") from e
    if suffix == ".jsonl":
        yield from _jsonl_rows(text, name)
    elif suffix == ".csv":
        yield from csv.DictReader(io.StringIO(text))
    elif suffix == ".json":
        rows = parse_json(text, name)
        if not isinstance(rows, list):
            raise DataError(f"{name}: expected a list of objects, found {type(rows).__name__}")
        yield from (_require_object(row, f"{name}, item {i}") for i, row in enumerate(rows))
    else:
        raise DataError(f"{name}: unknown kind of table; known kinds: {', '.join(SUFFIXES)}")


def parse_json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise DataError(f"{name}: not JSON ({e})") from e


def hub_rows(name: str, config: str | None, split: str) -> Iterator[Cells]:
    """The rows of a split of a hub dataset, or of one of its folders if `config` ends in a slash. Images stay encoded.

    Raises DataError if it cannot be loaded.
    """
    require_datasets(name)
    import datasets

    datasets.disable_progress_bars()
    selection: dict[str, Any] = {"name": config}
    if config is not None and config.endswith("/"):
        selection = {"data_files": {split: f"{config}{split}*.parquet"}}
    try:
        dataset: Any = datasets.load_dataset(name, split=split, **selection)
    except Exception as e:  # the library raises whatever its transports raise
        reason = (str(e).splitlines() or [type(e).__name__])[0]
        raise DataError(
            f"{name}: cannot load the {split} split from the hub ({reason}); give a local copy with data=PATH"
        ) from e
    for column, feature in dataset.features.items():
        if isinstance(feature, datasets.Image):
            dataset = dataset.cast_column(column, datasets.Image(decode=False))
        elif isinstance(getattr(feature, "feature", None), datasets.Image):
            dataset = dataset.cast_column(column, datasets.List(datasets.Image(decode=False)))
    yield from dataset


def require_datasets(name: str) -> None:
    if find_spec("datasets") is None:
        raise DataError(f"{name}: reading it needs the extra `data`: pip install 'vlrft[data]'")


def _jsonl_rows(text: str, name: str) -> Iterator[Cells]:
    for number, line in enumerate(
        text.split("\n"), 1
    ):  # not splitlines: texts contain other line breaks
        if line.strip():
            where = f"{name}, line {number}"
            yield _require_object(parse_json(line, where), where)


def _require_object(row: Any, where: str) -> Cells:
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected an object, found {type(row).__name__}")
    return row


def _arrow_rows(file: BinaryIO, name: str, suffix: str) -> Iterator[Cells]:
    require_datasets(name)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if suffix == ".parquet":
            for batch in pq.ParquetFile(file).iter_batches(batch_size=256):
                yield from batch.to_pylist()
            return
        with pa.ipc.open_stream(file) as stream:
            for batch in stream:
                yield from batch.to_pylist()
    except pa.ArrowInvalid as e:
        raise DataError(
            f"{name}: not a readable {suffix[1:]} file ({str(e).splitlines()[0]})"
        ) from e
