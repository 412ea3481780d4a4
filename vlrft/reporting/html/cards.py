"""Rollouts and evaluation records as cards: the image with its boxes, the prompt, the completion and its scores."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL.Image import Image

from vlrft.grading import MAX_LIST, read_answer
from vlrft.reporting.html.overlay import Overlay, Strip
from vlrft.reporting.html.run_data import JsonRow
from vlrft.reporting.html.segments import segment_overlays
from vlrft.schema import DataError
from vlrft.vision.boxes import THOUSAND, Box, is_box, rescale
from vlrft.vision.images import open_image

MAX_CHARACTERS = 600
MAX_PNG = 60_000  # bytes of an image on the page
MAX_BOXES = 20  # predicted boxes that are drawn
_NUMBER = r"\s*(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)\s*"
_BOXES = re.compile(  # (x1,y1),(x2,y2) or [x1, y1, x2, y2]
    rf"\({_NUMBER},{_NUMBER}\)\s*,\s*\({_NUMBER},{_NUMBER}\)"
    rf"|\[{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\]"
)
MAX_PIXELS = 480  # the longer side of an image: the page stays small enough to send
STRIP_PIXELS = 1200  # of the strip of a video


@dataclass(frozen=True, kw_only=True)
class Card:
    """One rollout or record as texts of the page."""

    images: tuple[str, ...]  # data URIs
    boxes: tuple[Overlay, ...]
    title: str
    prompt: str
    completion: str
    answer: str
    scores: tuple[tuple[str, str], ...]  # name and value, the advantage last
    good: bool
    note: str = ""  # why no answer could be read
    states: tuple[str, ...] = ()  # classes that a page filters by
    strips: tuple[Strip, ...] = ()  # of videos


def make_card(run: Path, row: JsonRow) -> Card:
    """A card of a line of rollouts.jsonl or evals.jsonl."""
    text: str = row["completion"] if "completion" in row else row["output"]
    scores = {k: v for k, v in row["scores"].items() if v is not None}
    labels = [(name, f"{value:.2f}") for name, value in scores.items()]
    if row.get("advantage") is not None:
        labels.append(("advantage", f"{row['advantage']:+.2f}"))
    return Card(
        images=tuple(uri for name in row["images"] if (uri := data_uri(run / name))),
        boxes=box_overlays(row["answer"], text, tuple(row.get("frame", (THOUSAND, THOUSAND)))),
        title=f"{row['id']} · step {row['step']}",
        strips=tuple(
            Strip(image=uri, segments=segment_overlays(row["answer"], text, strip["seconds"]))
            for strip in row.get("strips", ())
            if (uri := data_uri(run / strip["image"], STRIP_PIXELS))
        ),
        prompt=shown_prompt(row["prompt"]),
        completion=shorten(text),
        note=unreadable_note(row.get("unreadable", "")),
        answer="" if row["answer"] is None else str(row["answer"]),
        scores=tuple(labels),
        good=bool(scores) and min(scores.values()) >= 0.5,
    )


def box_overlays(
    answer: Any, text: str, frame: tuple[float, float] = (THOUSAND, THOUSAND)
) -> tuple[Overlay, ...]:
    """The true and the predicted boxes, when the gold answer is a box, or several, on the 0–1000 scale. `text`: the
    completion, with its boxes in pixels of `frame`. They are searched for, as nothing is graded here."""
    true = gold_overlays(answer)
    tag = (read_answer(text, MAX_LIST) or "") if true else ""
    boxes = [tuple(float(n) for n in match if n) for match in _BOXES.findall(tag)[:MAX_BOXES]]
    predicted = [rescale((b[0], b[1], b[2], b[3]), frame, (THOUSAND, THOUSAND)) for b in boxes]
    return (*true, *(overlay for box in predicted for overlay in _overlay("predicted", box)))


def gold_overlays(answer: Any) -> tuple[Overlay, ...]:
    """The gold answer's box, or its boxes when it is a list of them; () for an answer without boxes."""
    if is_box(answer):
        return _overlay("true", tuple(answer))
    if isinstance(answer, list | tuple) and all(map(is_box, answer)):
        return tuple(o for box in answer for o in _overlay("true", tuple(box)))
    return ()


def _overlay(kind: str, box: Box) -> tuple[Overlay, ...]:
    """The overlay of a box; () for one that is not within the image."""
    x1, y1, x2, y2 = box
    if not all(0 <= v <= 1000 for v in box):
        return ()
    left, top = min(x1, x2) / 10, min(y1, y2) / 10
    return (
        Overlay(kind=kind, left=left, top=top, width=abs(x2 - x1) / 10, height=abs(y2 - y1) / 10),
    )


def pick_rollouts(rollouts: Sequence[JsonRow], limit: int) -> list[JsonRow]:
    """At most `limit` rollouts: the best and worst of groups from evenly spaced steps, in the order of the steps.

    Groups whose rewards differ are preferred; injected rollouts are left out.
    """
    groups: dict[tuple[int, str], list[JsonRow]] = {}
    for row in rollouts:
        if row.get("origin") != "injected":
            groups.setdefault((row["step"], row["id"]), []).append(row)
    mixed = [g for g in groups.values() if len({r["reward"] for r in g}) > 1] or [*groups.values()]
    if not mixed:
        return []
    count = max(limit // 4, 1)
    spaced = [mixed[round(i * (len(mixed) - 1) / max(count - 1, 1))] for i in range(count)]
    unique = list({id(g): g for g in spaced}.values())
    return [row for g in unique for row in _best_and_worst(g)]


def _best_and_worst(group: list[JsonRow]) -> list[JsonRow]:
    """The two best and the two worst rollouts of a group."""
    ranked = sorted(group, key=lambda r: -r["reward"])
    return ranked if len(ranked) <= 4 else [*ranked[:2], *ranked[-2:]]


def shown_prompt(prompt: str) -> str:
    """The prompt without the mark of the picture or the video that is shown above it."""
    return prompt.removeprefix("<image>").removeprefix("<video>").strip()


def shorten(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + " …"


def unreadable_note(why: str) -> str:
    """Why no answer could be read, as a sentence of the page; "" where one was read."""
    return f"unreadable: {why}" if why else ""


def data_uri(path: Path, longest: int = MAX_PIXELS) -> str:
    """The image file as the source of an <img>, shrunk to `longest` pixels; "" when it cannot be read."""
    try:
        content = path.read_bytes()
        image = open_image(content, path.name)
    except (OSError, DataError):
        return ""
    if max(image.size) > longest:
        return image_uri(image, longest)
    return "data:image/png;base64," + base64.b64encode(content).decode()


def image_uri(image: Image, longest: int = MAX_PIXELS) -> str:
    """The image as the source of an <img>, shrunk to `longest` pixels: a PNG, or a JPEG where that would be large, as of a
    photograph."""
    small, kind = image.copy(), "png"
    small.thumbnail((longest, longest))
    file = io.BytesIO()
    small.save(file, format="PNG")
    if file.tell() > MAX_PNG:
        file, kind = io.BytesIO(), "jpeg"
        small.convert("RGB").save(file, format="JPEG", quality=85)
    return f"data:image/{kind};base64," + base64.b64encode(file.getvalue()).decode()
