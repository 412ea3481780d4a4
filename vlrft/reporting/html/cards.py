"""Rollouts and evaluation records as cards: the picture with its boxes, what was asked, what was said, what it earned."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from vlrft.grading import read_answer, read_box
from vlrft.vision.boxes import Box

Row = dict[str, Any]
SHOWN_CHARACTERS = 600
SHOWN_PIXELS = 480  # the longer side of a picture: the page stays small enough to send


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A box in percent of the picture."""

    kind: str  # "true" or "predicted"
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True)
class Card:
    """One rollout or record, ready to be shown."""

    pictures: tuple[str, ...]  # data URIs
    boxes: tuple[Overlay, ...]
    title: str
    prompt: str
    completion: str
    answer: str
    figures: tuple[tuple[str, str], ...]
    good: bool


def card(run: Path, row: Row) -> Card:
    """A line of rollouts.jsonl or of evals.jsonl as a card."""
    text: str = row["completion"] if "completion" in row else row["output"]
    scores = {k: v for k, v in row["scores"].items() if v is not None}
    figures = [(name, f"{value:.2f}") for name, value in scores.items()]
    if row.get("advantage") is not None:
        figures.append(("advantage", f"{row['advantage']:+.2f}"))
    return Card(
        pictures=tuple(uri for name in row["images"] if (uri := data_uri(run / name))),
        boxes=overlays(row["answer"], text),
        title=f"{row['id']} · step {row['step']}",
        prompt=row["prompt"].removeprefix("<image>").strip(),  # the picture stands above it
        completion=_cut(text),
        answer="" if row["answer"] is None else str(row["answer"]),
        figures=tuple(figures),
        good=bool(scores) and min(scores.values()) >= 0.5,
    )


def overlays(answer: Any, text: str) -> tuple[Overlay, ...]:
    """The true and the predicted boxes, when the gold answer is a box on the 0–1000 scale."""
    true = gold_overlays(answer)
    said = read_answer(text) if true else None
    predicted = None if said is None else read_box(said)
    return (*true, *(_overlay("predicted", predicted) if predicted else ()))


def gold_overlays(answer: Any) -> tuple[Overlay, ...]:
    """The box that the gold answer is, or the boxes that it is a list of."""
    if is_box(answer):
        return _overlay("true", tuple(answer))
    if isinstance(answer, list | tuple) and all(map(is_box, answer)):
        return tuple(o for box in answer for o in _overlay("true", tuple(box)))
    return ()


def _overlay(kind: str, box: Box) -> tuple[Overlay, ...]:
    """Nothing for a box that leaves the picture."""
    x1, y1, x2, y2 = box
    if not all(0 <= v <= 1000 for v in box):
        return ()
    left, top = min(x1, x2) / 10, min(y1, y2) / 10
    return (
        Overlay(kind=kind, left=left, top=top, width=abs(x2 - x1) / 10, height=abs(y2 - y1) / 10),
    )


def is_box(answer: Any) -> bool:
    return (
        isinstance(answer, list | tuple)
        and len(answer) == 4
        and all(isinstance(v, int | float) for v in answer)
    )


def pick(rollouts: Sequence[Row], most: int) -> list[Row]:
    """Whole groups from evenly spread steps, late ones last."""
    groups: dict[tuple[int, str], list[Row]] = {}
    for row in rollouts:
        if row.get("origin") != "injected":
            groups.setdefault((row["step"], row["id"]), []).append(row)
    mixed = [g for g in groups.values() if len({r["reward"] for r in g}) > 1] or [*groups.values()]
    if not mixed:
        return []
    wanted = max(most // 4, 1)
    spread = [mixed[round(i * (len(mixed) - 1) / max(wanted - 1, 1))] for i in range(wanted)]
    unique = list({id(g): g for g in spread}.values())
    return [row for g in unique for row in _contrast(g)]


def _contrast(group: list[Row]) -> list[Row]:
    """The two best and the two worst of a group."""
    ranked = sorted(group, key=lambda r: -r["reward"])
    return ranked if len(ranked) <= 4 else [*ranked[:2], *ranked[-2:]]


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + " …"


def data_uri(path: Path) -> str:
    """The picture for an <img>, shrunk to what a card shows; "" when there is none to read."""
    try:
        content = path.read_bytes()
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            if max(image.size) > SHOWN_PIXELS:
                small = io.BytesIO()
                image.thumbnail((SHOWN_PIXELS, SHOWN_PIXELS))
                image.save(small, format="PNG")
                content = small.getvalue()
    except OSError:
        return ""
    return "data:image/png;base64," + base64.b64encode(content).decode()
