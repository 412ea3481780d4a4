"""The layout of a prepared folder: a jsonl file for each split, images named by content, and a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.data.row import Picture, Row
from vlrft.data.source import Source, read_file
from vlrft.schema import DataError

MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class PreparedFolder:
    """Reads the output of `prepare`."""

    source: Source
    manifest: Mapping[str, Any]

    @staticmethod
    def at(source: Source) -> PreparedFolder | None:
        """The prepared folder or zip at this source; None for any other source."""
        if MANIFEST not in source.names():
            return None
        manifest = json.loads(read_file(source, MANIFEST))
        return PreparedFolder(source=source, manifest=manifest) if "splits" in manifest else None

    def rows(self, split: str) -> Iterator[Row]:
        """The split's rows. Raises DataError if it is not there, or differs from the manifest."""
        splits: Mapping[str, Any] = self.manifest["splits"]
        if split not in splits:
            raise DataError(
                f"{self.source.label}: the {split} split is not prepared; prepared are {', '.join(splits) or 'none'}"
            )
        content = read_file(self.source, f"{split}.jsonl")
        if hashlib.sha256(content).hexdigest() != splits[split]["sha256"]:
            raise DataError(
                f"{self.source.label}: {split}.jsonl is not the file that {MANIFEST} describes; prepare it again "
                "with --overwrite"
            )
        for line in content.decode("utf-8").split("\n"):
            if line:
                yield self._row(json.loads(line))

    def _row(self, cells: Mapping[str, Any]) -> Row:
        return Row(
            id=cells["id"],
            question=cells["question"],
            answer=cells["answer"],
            pictures=tuple(self._picture(name) for name in cells["images"]),
            tags=cells["tags"],
            info=cells["info"],
        )

    def _picture(self, name: str) -> Picture:
        return Picture(name=name, read=lambda: read_file(self.source, name))


def store_row(row: Row, folder: Path) -> str:
    """Writes the row's images into `images/` of the folder, each named by its content, and returns the row's JSON line."""
    names: list[str] = []
    for picture in row.pictures:
        content = picture.read()
        suffix = Path(picture.name).suffix.lower()
        name = f"images/{hashlib.sha256(content).hexdigest()[:24]}{suffix}"
        if not (folder / name).exists():
            (folder / "images").mkdir(exist_ok=True)
            draft = folder / f"{name}.part"
            draft.write_bytes(content)
            draft.replace(folder / name)
        names.append(name)
    cells = {
        "id": row.id,
        "question": row.question,
        "answer": row.answer,
        "images": names,
        "tags": dict(row.tags),
        "info": dict(row.info),
    }
    return json.dumps(cells, ensure_ascii=False)
