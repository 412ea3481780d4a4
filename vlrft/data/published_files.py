"""Files as data sets are published in them: tables of the hub, json, jsonl and pictures."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS: Mapping[str, Any] = {
    "image": {"_type": "Image"},
    "string": {"dtype": "string", "_type": "Value"},
    "int64": {"dtype": "int64", "_type": "Value"},
    "images": {"feature": {"_type": "Image"}, "_type": "List"},
    "strings": {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"},
}
"""Kind of a column -> its feature, as `datasets` writes it into a table."""


def encode_picture(image: Image, form: str = "PNG") -> bytes:
    """The picture's file."""
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


def write_hub_table(
    path: Path, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Writes a parquet file of the hub. `columns`: name -> kind, one of `KINDS`; pictures are stored in the table as PNG."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    picture = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    types = {
        "image": picture,
        "string": pa.string(),
        "int64": pa.int64(),
        "images": pa.list_(picture),
        "strings": pa.list_(pa.string()),
    }
    features = {name: KINDS[kind] for name, kind in columns.items()}
    schema = pa.schema(
        [(name, types[kind]) for name, kind in columns.items()],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    cells = [{name: _cell(row[name], kind) for name, kind in columns.items()} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(cells, schema=schema), path)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a jsonl file."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_bytes(path, "".join(lines).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _cell(value: Any, kind: str) -> Any:
    if kind == "images":
        return [_cell(image, "image") for image in value]
    return {"bytes": encode_picture(value), "path": None} if kind == "image" else value
