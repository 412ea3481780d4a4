"""Raw dataset -> prepared folder: every row is validated, every defect listed, and an interrupted run can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vlrft.config.shipped import package_version
from vlrft.data.atomic import write_atomically
from vlrft.data.claim import lock_folder, refuse_foreign_split
from vlrft.data.prepared import MANIFEST, read_manifest, store_row
from vlrft.data.row import Defect, Row
from vlrft.data.row_checks import ClipCheck, find_problem
from vlrft.data.unfinished_split import UnfinishedSplit
from vlrft.schema import DataError
from vlrft.schema.errors import NoRowsError
from vlrft.vision.video.frames import FrameRule


@dataclass(frozen=True, kw_only=True)
class PreparedSplit:
    """Counts of one prepared split."""

    split: str
    rows: int
    defects: dict[str, int]  # reason -> rows
    resumed: int  # rows and defects written by an earlier, interrupted run


def prepare(
    rows: Iterable[Row | Defect],
    *,
    task: str,
    split: str,
    where: str,
    out: Path,
    check_sample: Callable[[Row], str | None],
    restart: bool = False,
    options: str = "",
    explain: Callable[[], str] = str,
    notes: Sequence[str] = (),
    prompts: Mapping[str, object] = MappingProxyType({}),
    thoughts: str | None = None,
    settings: str = "",
    frames: FrameRule | None = None,
) -> PreparedSplit:
    """Writes `out/SPLIT.jsonl`, `out/images/`, `out/SPLIT.defects.jsonl` and the split's entry of `out/manifest.json`.

    `check_sample` returns what is wrong with the sample of a row as `reason: detail`, or None. An interrupted run resumes
    after its last complete row, unless `restart` is set. `where`: the source's label, for the manifest and messages;
    `options`: what else the rows depend on; `explain`: what was looked for at the source, for the message of a split without
    a row; `notes`: a list that has been filled once the rows are read, stored in the manifest; `prompts`: the model and the
    limit that prompts were measured with, stored in the manifest unless empty; `thoughts`: a hash of those that a table gave, stored
    likewise; `settings`: a hash of the options, stored likewise; `frames`: those of videos that are decoded, None: as qwen-vl-utils chooses them.

    Raises DataError if the folder has another task's data, or if no row can be used; ConfigError if it has files of these names that were not prepared, or the beginning of other rows; FolderInUse if
    another process writes it.
    """
    with lock_folder(out):
        refuse_foreign_split(out, split)
        manifest = _open_manifest(out, task)
        measured = f"\0{dict(prompts)}" if prompts else ""
        origin = hashlib.sha256(
            f"{where}\0{options}{measured}".encode(errors="replace")
        ).hexdigest()
        clips = ClipCheck(frames or FrameRule())
        find = partial(find_problem, check_sample=check_sample, clips=clips)
        with UnfinishedSplit(folder=out, split=split).begun(origin, restart=restart) as part:
            resumed = part.repair()
            _write_rows(rows, find, part, resumed)
            defects, count = part.read_defects(), part.count_rows()
            if not count:
                part.remove()
                raise NoRowsError(
                    "; ".join(filter(None, (f"{where}: {_no_rows(split, defects)}", explain())))
                )
            reasons = dict(Counter(str(d["reason"]) for d in defects))
            manifest["splits"][split] = {
                "rows": count,
                "sha256": part.digest(),
                "from": where,
                "defects": reasons,
                "vlrft": package_version(),
                **({"settings": settings} if settings else {}),
                **({"notes": list(dict.fromkeys(notes))} if notes else {}),
                **({"prompts": dict(prompts)} if prompts else {}),
                **({"thoughts": thoughts} if thoughts else {}),
            }
            # The manifest first: a killed call leaves no rows that are not listed, and its .part files are finished by the next.
            write_atomically(out / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
            part.finish()
            return PreparedSplit(split=split, rows=count, defects=reasons, resumed=resumed)


def _write_rows(
    rows: Iterable[Row | Defect],
    find: Callable[[Row, set[str]], str],
    part: UnfinishedSplit,
    done: int,
) -> None:
    """Appends the rows, each valid one to the rows and each other one to the defects, without the first `done`."""
    items = _validate(rows, find, part.stored_ids())
    try:
        with part.appending() as (good, bad):
            for item in islice(items, done, None):
                if isinstance(item, Row):
                    good.write(store_row(item, part.folder) + "\n")
                    good.flush()
                    continue
                bad.write(_defect_json(item) + "\n")
                bad.flush()
    except Exception:
        if part.is_empty():
            part.remove()  # nothing to resume
        raise


def _no_rows(split: str, defects: Sequence[Mapping[str, Any]]) -> str:
    if not defects:
        return f"no row of the {split} split: there is none"
    return f"no row of the {split} split can be used, {len(defects)} cannot, the first: {_words(defects[0])}"


def _validate(
    rows: Iterable[Row | Defect],
    find: Callable[[Row, set[str]], str],
    stored_ids: set[str],
) -> Iterator[Row | Defect]:
    """The same items, with each row that fails a check replaced by a defect. Rows that an earlier run stored passed."""
    ids: set[str] = set()
    for item in rows:
        if isinstance(item, Defect):
            yield item
            continue
        stored = item.id in stored_ids and item.id not in ids
        problem = "" if stored else find(item, ids)
        ids.add(item.id)
        yield Defect.of(item.id, problem) if problem else item


def _open_manifest(out: Path, task: str) -> dict[str, Any]:
    path = out / MANIFEST
    if not path.exists():
        return {"task": task, "splits": {}}
    manifest = read_manifest(path.read_bytes(), str(path))
    if manifest.get("task") != task:
        raise DataError(f"{out}: contains the data of {manifest.get('task')!r}; use another --out")
    if not isinstance(manifest.get("splits"), dict):
        raise DataError(f"{path}: not a manifest of prepared data; use another --out")
    return manifest


def _defect_json(defect: Defect) -> str:
    cells = {"id": defect.id, "reason": defect.reason, "detail": defect.detail}
    return json.dumps(cells | {"intended": defect.intended}, ensure_ascii=False)


def _words(defect: Mapping[str, Any]) -> str:
    return str(Defect(id=defect["id"], reason=defect["reason"], detail=defect["detail"]))
