"""Raw dataset -> prepared folder: every row is validated, every defect listed, and an interrupted run can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vlrft.config.shipped import package_version
from vlrft.data.atomic import naming, write_atomically
from vlrft.data.claim import lock_folder, refuse_foreign_split
from vlrft.data.prepared import MANIFEST, read_manifest, store_row
from vlrft.data.row import Defect, Row
from vlrft.data.row_checks import ClipCheck, find_problem
from vlrft.schema import DataError
from vlrft.schema.errors import ConfigError, NoRowsError
from vlrft.schema.short_message import first_line
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
    frames: FrameRule | None = None,
) -> PreparedSplit:
    """Writes `out/SPLIT.jsonl`, `out/images/`, `out/SPLIT.defects.jsonl` and the split's entry of `out/manifest.json`.

    `check_sample` returns what is wrong with the sample of a row as `reason: detail`, or None. An interrupted run resumes
    after its last complete row, unless `restart` is set. `where`: the source's label, for the manifest and messages;
    `options`: what else the rows depend on; `explain`: what was looked for at the source, for the message of a split without
    a row; `notes`: a list that has been filled once the rows are read, stored in the manifest; `prompts`: the model and the
    limit that prompts were measured with, stored in the manifest unless empty; `thoughts`: a hash of those that a table gave, stored
    likewise; `frames`: those of videos that are decoded, None: as qwen-vl-utils chooses them.

    Raises DataError if the folder has another task's data, or if no row can be used; ConfigError if it has files of these names that were not prepared, or the beginning of other rows; FolderInUse if
    another process writes it.
    """
    with lock_folder(out):
        refuse_foreign_split(out, split)
        measured = f"\0{dict(prompts)}" if prompts else ""
        origin = hashlib.sha256(
            f"{where}\0{options}{measured}".encode(errors="replace")
        ).hexdigest()
        parts = [out / f"{split}{suffix}.part" for suffix in (".jsonl", ".defects.jsonl")]
        clips = ClipCheck(frames or FrameRule())
        find = partial(find_problem, check_sample=check_sample, clips=clips)
        with _origin_of_parts(out / f"{split}.origin.part", origin, parts, restart=restart):
            return _prepare(
                rows, task, split, where, out, find, restart, explain, notes, prompts, thoughts
            )


def _prepare(
    rows: Iterable[Row | Defect],
    task: str,
    split: str,
    where: str,
    out: Path,
    find: Callable[[Row, set[str]], str],
    restart: bool,
    explain: Callable[[], str],
    notes: Sequence[str],
    prompts: Mapping[str, object],
    thoughts: str | None,
) -> PreparedSplit:
    manifest = _open_manifest(out, task)
    rows_file, defects_file = out / f"{split}.jsonl.part", out / f"{split}.defects.jsonl.part"
    if restart:
        rows_file.unlink(missing_ok=True)
        defects_file.unlink(missing_ok=True)
    done = _count_whole_lines(rows_file) + _count_whole_lines(defects_file)
    stored_ids = {row["id"] for row in _read_part(rows_file)}
    try:
        with (
            naming(out),
            rows_file.open("a", encoding="utf-8") as good,
            defects_file.open("a", encoding="utf-8") as bad,
        ):
            for item in islice(_validate(rows, find, stored_ids), done, None):
                if isinstance(item, Row):
                    good.write(store_row(item, out) + "\n")
                    good.flush()
                    continue
                bad.write(_defect_json(item) + "\n")
                bad.flush()
    except Exception:
        if not any(p.stat().st_size for p in (rows_file, defects_file) if p.exists()):
            rows_file.unlink(missing_ok=True)  # nothing to resume
            defects_file.unlink(missing_ok=True)
        raise
    defects = _read_part(defects_file)
    count = len(_lines(rows_file))
    if not count:
        rows_file.unlink(missing_ok=True)
        defects_file.unlink(missing_ok=True)
        problem = (
            f"no row of the {split} split can be used, {len(defects)} cannot, the first: {_words(defects[0])}"
            if defects
            else f"no row of the {split} split: there is none"
        )
        raise NoRowsError("; ".join(filter(None, (f"{where}: {problem}", explain()))))
    reasons = dict(Counter(str(d["reason"]) for d in defects))
    manifest["splits"][split] = {
        "rows": count,
        "sha256": hashlib.sha256(rows_file.read_bytes()).hexdigest(),
        "from": where,
        "defects": reasons,
        "vlrft": package_version(),
        **({"notes": list(dict.fromkeys(notes))} if notes else {}),
        **({"prompts": dict(prompts)} if prompts else {}),
        **({"thoughts": thoughts} if thoughts else {}),
    }
    # The manifest first: a killed call leaves no rows that are not listed, and its .part files are finished by the next.
    write_atomically(out / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    rows_file.replace(out / f"{split}.jsonl")
    defects_file.replace(out / f"{split}.defects.jsonl")
    return PreparedSplit(split=split, rows=count, defects=reasons, resumed=done)


@contextmanager
def _origin_of_parts(
    path: Path, origin: str, parts: Sequence[Path], *, restart: bool
) -> Iterator[None]:
    """Keeps the origin of a split's .part files (a hash: options may be secret) next to them, for as long as there are any.
    Raises ConfigError where they are the beginning of other rows."""
    begun = path.exists() and any(part.exists() for part in parts) and not restart
    if begun and path.read_text(encoding="utf-8", errors="replace").strip() != origin:
        raise ConfigError(
            [
                f"{path.parent}: an interrupted call has begun this split with other data or options; use --overwrite "
                "or another --out"
            ]
        )
    write_atomically(path, f"{origin}\n".encode())
    try:
        yield
    finally:
        if not any(part.exists() for part in parts):
            path.unlink()


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


def _read_part(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that an interrupted call has begun. Raises DataError if it is damaged."""
    try:
        rows = [json.loads(line) for line in _lines(path)]
        if all(isinstance(row.get("id"), str) for row in rows):
            return rows
        damage = "a line has no id"
    except (ValueError, AttributeError, RecursionError) as e:
        damage = first_line(e)
    raise DataError(f"{path}: damaged ({damage}); prepare it again with --overwrite")


def _defect_json(defect: Defect) -> str:
    cells = {"id": defect.id, "reason": defect.reason, "detail": defect.detail}
    return json.dumps(cells | {"intended": defect.intended}, ensure_ascii=False)


def _words(defect: dict[str, Any]) -> str:
    return str(Defect(id=defect["id"], reason=defect["reason"], detail=defect["detail"]))


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def _count_whole_lines(path: Path) -> int:
    """The number of complete lines; an incomplete last line, left by an interrupted writer, is removed from the file."""
    if not path.exists():
        return 0
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        path.write_bytes(whole)
    return whole.count(b"\n")
