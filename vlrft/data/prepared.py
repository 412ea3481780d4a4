"""The layout of a prepared folder: a jsonl file for each split, images and videos named by content, and a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vlrft.data.pictures import read_file
from vlrft.data.row import Clip, Picture, Row
from vlrft.data.source import Source, notes_of
from vlrft.schema import DataError
from vlrft.schema.errors import MissingSplit, StoredFileError
from vlrft.schema.short_message import first_line, short_message

MANIFEST = "manifest.json"
CHUNK = 1 << 20  # bytes


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
        manifest = read_manifest(read_file(source, MANIFEST), f"{source.label}/{MANIFEST}")
        return PreparedFolder(source=source, manifest=manifest) if "splits" in manifest else None

    def refuse_other_task(self, task: str) -> None:
        """Raises DataError where the folder was prepared for another task, whose questions and gold answers mean other things."""
        if (stored := self.manifest.get("task")) != task:
            raise DataError(
                f"{self.source.label}: holds the data of task {stored}, not of {task}; give the folder that was prepared for {task}"
            )

    def rows(self, split: str) -> Iterator[Row]:
        """The split's rows. Raises DataError if it is not there, or differs from the manifest."""
        splits = self.manifest["splits"]
        if not isinstance(splits, Mapping) or split not in splits:
            prepared = ", ".join(splits) if isinstance(splits, Mapping) else ""
            raise MissingSplit(
                f"{self.source.label}: the {split} split is not prepared; prepared are {prepared or 'none'}"
            )
        entry, table = splits[split], f"{split}.jsonl"
        digest = hashlib.sha256()
        for line in self._lines(table):
            digest.update(line)
        if not isinstance(entry, Mapping) or digest.hexdigest() != entry.get("sha256"):
            raise DataError(
                f"{self.source.label}: {table} is not the file that {MANIFEST} describes; prepare it again "
                "with --overwrite"
            )
        notes_of(self.source).extend(map(str, entry.get("notes", ())))
        for number, line in enumerate(self._lines(table), 1):
            if line.strip(b"\n"):
                yield self._row(line, f"{self.source.label}: {table}, line {number}")

    def _lines(self, table: str) -> Iterator[bytes]:
        with self.source.open(table) as file:
            try:
                yield from file
            except Exception as e:  # of an archive: a wrong checksum, …
                raise DataError(
                    f"{self.source.label}: cannot read {table} ({short_message(e)})"
                ) from e

    def _row(self, line: bytes, place: str) -> Row:
        try:
            cells = json.loads(line.decode("utf-8"))
            videos = cells.get("videos", ())
            texts = (
                cells["id"],
                cells["question"],
                cells.get("thought", ""),
                *cells["images"],
                *videos,
            )
            if not all(isinstance(text, str) for text in texts):
                raise TypeError(
                    "the id, the question, the thought and the names of images and videos are texts"
                )
            return Row(
                id=cells["id"],
                question=cells["question"],
                answer=cells["answer"],
                pictures=tuple(self._picture(name) for name in cells["images"]),
                videos=tuple(
                    Clip(name=v, open=partial(self.source.open, v), source=self.source.label)
                    for v in videos
                ),
                tags=dict(cells["tags"]),
                info=dict(cells["info"]),
                thought=cells.get("thought", ""),
            )
        except (ValueError, KeyError, TypeError, RecursionError) as e:
            raise DataError(f"{place}: no prepared row ({short_message(e)})") from e

    def _picture(self, name: str) -> Picture:
        return Picture(name=name, read=lambda: read_file(self.source, name))


def read_manifest(content: bytes, place: str) -> dict[str, Any]:
    """A manifest's content. Raises StoredFileError with `place` for a file that is damaged."""
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as e:
        raise StoredFileError(
            f"{place}: not JSON ({first_line(e)}); delete it, and prepare the data again if they were prepared"
        ) from e
    if not isinstance(manifest, dict):
        raise StoredFileError(
            f"{place}: expected an object, found {type(manifest).__name__}; rename it"
        )
    return manifest


def store_row(row: Row, folder: Path) -> str:
    """Writes the row's images into `images/` of the folder and its videos into `videos/`, each named by its content, and
    returns the row's JSON line."""
    names: list[str] = []
    for picture in row.pictures:
        content = picture.read()
        name = f"images/{hashlib.sha256(content).hexdigest()[:24]}{_suffix(picture.name)}"
        if not (folder / name).exists():
            (folder / "images").mkdir(exist_ok=True)
            draft = folder / f"{name}.part"
            draft.write_bytes(content)
            draft.replace(folder / name)
        names.append(name)
    return row_json(row, images=names, videos=[_store_clip(clip, folder) for clip in row.videos])


def _store_clip(clip: Clip, folder: Path) -> str:
    """Copies a video, which may be larger than memory, and returns its name."""
    draft = folder / "videos" / "draft.part"
    draft.parent.mkdir(exist_ok=True)
    digest = hashlib.sha256()
    with clip.open() as file, draft.open("wb") as copy:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            copy.write(chunk)
    name = f"videos/{digest.hexdigest()[:24]}{_suffix(clip.name)}"
    draft.replace(folder / name)
    return name


def row_json(row: Row, images: Sequence[str], videos: Sequence[str] = ()) -> str:
    """The row's line of a prepared split, with these names of its images and videos."""
    cells = {
        "id": row.id,
        "question": row.question,
        "answer": row.answer,
        "images": list(images),
        **({"videos": list(videos)} if videos else {}),
        "tags": dict(row.tags),
        "info": dict(row.info),
        **({"thought": row.thought} if row.thought else {}),
    }
    return json.dumps(cells, ensure_ascii=False)


def _suffix(name: str) -> str:
    """The suffix of a picture's name, if it is an ordinary one."""
    suffix = Path(name).suffix.lower()
    return suffix if len(suffix) <= 8 and suffix[1:].isascii() and suffix[1:].isalnum() else ""
