"""Raw data set -> prepared folder: every row validated, every defect listed, restartable."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from vlrft.config.shipped import package_version
from vlrft.data.prepared import MANIFEST, line_of
from vlrft.data.row import Defect, Row
from vlrft.data.source import readable
from vlrft.schema import DataError


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """One split as it was prepared."""

    split: str
    rows: int
    defects: dict[str, int]  # reason -> rows
    resumed: int  # rows that an earlier, interrupted preparation had done


def prepare(
    found: Iterable[Row | Defect],
    *,
    task: str,
    split: str,
    where: str,
    out: Path,
    gold: Callable[[Row], str | None],
    anew: bool = False,
) -> Prepared:
    """Writes `out/SPLIT.jsonl`, `out/images/`, `out/SPLIT.defects.jsonl` and the split's part of `out/manifest.json`.

    `gold` says what is wrong with a row's gold answer, or None. A preparation that was stopped goes on behind the last
    whole row, unless it is to begin `anew`. Raises DataError when the folder holds another task's data, or when no row is left.
    """
    out.mkdir(parents=True, exist_ok=True)
    manifest = _manifest(out, task)
    rows, defects = out / f"{split}.jsonl.part", out / f"{split}.defects.jsonl.part"
    if anew:
        rows.unlink(missing_ok=True)
        defects.unlink(missing_ok=True)
    done = _whole_lines(rows) + _whole_lines(defects)
    seen = {json.loads(line)["id"] for line in _lines(rows)}
    with rows.open("a", encoding="utf-8") as good, defects.open("a", encoding="utf-8") as bad:
        for item in islice(_checked(found, gold, seen), done, None):
            if isinstance(item, Row):
                good.write(line_of(item, out) + "\n")
                good.flush()
                continue
            cells = {"id": item.id, "reason": item.reason, "detail": item.detail}
            bad.write(json.dumps(cells | {"intended": item.intended}, ensure_ascii=False) + "\n")
            bad.flush()
    listed = [json.loads(line) for line in _lines(defects)]
    count = len(_lines(rows))
    if not count:
        rows.unlink()
        defects.unlink()
        first = f", the first: {listed[0]['id']} ({listed[0]['reason']})" if listed else ""
        raise DataError(
            f"{where}: no row of the {split} split can be used, {len(listed)} cannot{first}"
        )
    reasons = dict(Counter(str(d["reason"]) for d in listed))
    manifest["splits"][split] = {
        "rows": count,
        "sha256": hashlib.sha256(rows.read_bytes()).hexdigest(),
        "from": where,
        "defects": reasons,
        "vlrft": package_version(),
    }
    rows.replace(out / f"{split}.jsonl")
    defects.replace(out / f"{split}.defects.jsonl")
    draft = out / f"{MANIFEST}.part"
    draft.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    draft.replace(out / MANIFEST)
    return Prepared(split=split, rows=count, defects=reasons, resumed=done)


def _checked(
    found: Iterable[Row | Defect], gold: Callable[[Row], str | None], seen: set[str]
) -> Iterator[Row | Defect]:
    """The same items; a row that fails a check becomes a defect."""
    ids: set[str] = set()
    for item in found:
        if isinstance(item, Defect):
            yield item
            continue
        problem = "" if item.id in seen and item.id not in ids else _problem(item, ids, gold)
        ids.add(item.id)
        reason, _, detail = problem.partition(": ")
        yield Defect(id=item.id, reason=reason, detail=detail) if problem else item


def _problem(row: Row, ids: set[str], gold: Callable[[Row], str | None]) -> str:
    """`reason: detail`, or nothing."""
    if row.id in ids:
        return "id twice"
    if not row.question.strip():
        return "empty question"
    for found in row.pictures:
        try:
            readable(found)
        except DataError as e:
            return f"image missing or unreadable: {e}"
    problem = gold(row)
    return f"gold answer unreadable: {problem}" if problem else ""


def _manifest(out: Path, task: str) -> dict[str, Any]:
    path = out / MANIFEST
    if not path.exists():
        return {"task": task, "splits": {}}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if found.get("task") != task:
        raise DataError(f"{out}: holds the data of {found.get('task')!r}; use another --out")
    return found


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def _whole_lines(path: Path) -> int:
    """How many whole lines there are; what a stopped writer left of another is cut off."""
    if not path.exists():
        return 0
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        path.write_bytes(whole)
    return whole.count(b"\n")
