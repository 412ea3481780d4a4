"""Rows of parquet and arrow files. Damage costs the rows of a batch or of the rest of a row group, not the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from vlrft.data.cells import Cells, UnreadableRows
from vlrft.data.class_names import class_names, name_classes
from vlrft.data.hub import require_datasets
from vlrft.schema import DataError
from vlrft.schema.short_message import first_line

BATCH = 256
PART = 8 << 20  # bytes


def read_parquet(file: BinaryIO, name: str) -> Iterator[Cells | UnreadableRows]:
    """The rows, row group by row group; pages are compared with their checksums where they have them."""
    require_datasets(name)
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file, page_checksum_verification=True)
    except Exception as e:  # ArrowInvalid, OSError, …
        raise DataError(f"{name}: not a readable parquet file ({first_line(e)})") from e
    start = 0
    for group in range(table.num_row_groups):
        size = table.metadata.row_group(group).num_rows
        done = 0
        why = "the row group has fewer rows than its header says"
        try:
            for batch in table.iter_batches(batch_size=BATCH, row_groups=[group]):
                yield from _batch_rows(batch, name, start + done)
                done += batch.num_rows
        except Exception as e:
            why = first_line(e)
        if done < size:
            place = f"{name}, rows {start + done} to {start + size - 1}"
            yield UnreadableRows(
                place=place, why=f"row group {group} is damaged ({why})", rows=size - done
            )
        start += size


def read_arrow(file: BinaryIO, name: str) -> Iterator[Cells | UnreadableRows]:
    """The rows of an arrow stream. Raises DataError, which says how many rows were read, for a stream that is damaged or
    cut: its later batches cannot be found."""
    require_datasets(name)
    import pyarrow as pa

    start = 0
    try:
        with pa.ipc.open_stream(file) as stream:
            for batch in stream:
                yield from _batch_rows(batch, name, start)
                start += batch.num_rows
    except Exception as e:
        lost = f" after row {start}" if start else ""
        raise DataError(f"{name}: not a readable arrow file{lost} ({first_line(e)})") from e


def read_batches(table: Any, name: str) -> Iterator[Cells | UnreadableRows]:
    """The rows of a pyarrow table in memory."""
    start = 0
    for batch in table.to_batches(max_chunksize=BATCH):
        yield from _batch_rows(batch, name, start)
        start += batch.num_rows


def _batch_rows(batch: Any, name: str, start: int) -> Iterator[Cells | UnreadableRows]:
    """The rows of a batch, a few megabytes at a time: lists of bits take 64 times as much in Python. `start`: the number of
    the first one."""
    count = max(1, batch.num_rows * PART // max(1, batch.nbytes))
    for first in range(0, batch.num_rows, count):
        yield from _part_rows(batch.slice(first, count), name, start + first)


def _part_rows(batch: Any, name: str, start: int) -> Iterator[Cells | UnreadableRows]:
    """The rows of a batch; if they cannot be read at once, each that can."""
    try:
        batch.validate(full=True)  # offsets out of bounds would read outside of the file's memory
        rows = batch.to_pylist()
    except Exception:
        rows = [
            _one_row(batch.slice(k, 1), f"{name}, row {start + k}") for k in range(batch.num_rows)
        ]
    classes = class_names(batch.schema.metadata)
    for row in rows:
        yield name_classes(row, classes) if isinstance(row, dict) else row


def _one_row(batch: Any, where: str) -> Cells | UnreadableRows:
    try:
        batch.validate(full=True)
        row: Cells = batch.to_pylist()[0]
        return row
    except Exception as e:
        return UnreadableRows(place=where, why=f"damaged ({first_line(e)})")
