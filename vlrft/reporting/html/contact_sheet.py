"""What a pack's samples are: figures in words, and a contact sheet with gold boxes drawn."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape
from PIL.Image import Image

from vlrft.reporting.html.cards import SHOWN_PIXELS, Overlay, gold_overlays
from vlrft.schema import IMAGE, Sample

LOOKED_AT = 500  # samples whose images are measured
ON_THE_SHEET = 48


def facts(samples: Sequence[Sample]) -> list[str]:
    """Tags, lengths of questions, sizes of images, over the first samples."""
    looked = [samples[i] for i in range(min(LOOKED_AT, len(samples)))]
    lines = [f"  (over the first {len(looked)})"] if len(looked) < len(samples) else []
    tags: dict[str, Counter[str]] = {}
    for sample in looked:
        for key, value in sample.tags.items():
            tags.setdefault(key, Counter())[value] += 1
    for key, counts in tags.items():
        common = ", ".join(f"{_short(v, 24)} {n}" for v, n in counts.most_common(6))
        more = f", {len(counts) - 6} more" if len(counts) > 6 else ""
        lines.append(f"  {key}: {common}{more}")
    lengths = [len(question(s)) for s in looked]
    lines.append(f"  question: {_spread(lengths)} characters")
    images = Counter(len(s.images) for s in looked)
    lines.append(f"  images a sample: {', '.join(f'{k} ({n})' for k, n in sorted(images.items()))}")
    sizes = [image.size for s in looked for image in s.images]
    if sizes:
        width, height = zip(*sizes, strict=True)
        lines.append(f"  width: {_spread(width)} pixels; height: {_spread(height)} pixels")
    return lines


def shown(sample: Sample) -> list[str]:
    sizes = ", ".join(f"{i.width} × {i.height}" for i in sample.images) or "none"
    return [
        f"  {sample.id}",
        f"    question: {_short(question(sample), 300)}",
        f"    answer: {_short(str(sample.answer), 120)}   images: {sizes}",
    ]


def write_sheet(path: Path, task: str, splits: Sequence[tuple[str, Sequence[Sample]]]) -> None:
    """One self-contained page: evenly spread samples of each split."""
    pages = Environment(
        loader=PackageLoader("vlrft.reporting.html"), autoescape=select_autoescape(default=True)
    )
    sections: list[dict[str, Any]] = []
    for split, samples in splits:
        wanted = min(ON_THE_SHEET, len(samples))
        places = [i * len(samples) // wanted for i in range(wanted)]
        cards = [_card(samples[i]) for i in places]
        sections.append({"split": split, "n": len(samples), "cards": cards})
    page = pages.get_template("sheet.html").render(task=task, sections=sections)
    path.write_text(page, encoding="utf-8")


def question(sample: Sample) -> str:
    return "\n".join(
        "".join("<image>" if part is IMAGE else str(part) for part in message.content)
        for message in sample.messages
    ).strip()


def _card(sample: Sample) -> dict[str, Any]:
    boxes: tuple[Overlay, ...] = gold_overlays(sample.answer)
    return {
        "id": sample.id,
        "pictures": [_uri(image) for image in sample.images],
        "boxes": boxes if len(sample.images) == 1 else (),
        "question": _short(question(sample).replace("<image>", "").strip(), 400),
        "answer": _short(str(sample.answer), 200),
        "tags": {k: _short(v, 40) for k, v in sample.tags.items()},
    }


def _uri(image: Image) -> str:
    small = image.copy()
    small.thumbnail((SHOWN_PIXELS, SHOWN_PIXELS))
    file = io.BytesIO()
    small.save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _short(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[:most] + " …"


def _spread(values: Sequence[int]) -> str:
    low, middle, high = np.quantile(values, [0, 0.5, 1])
    return f"{low:.0f} to {high:.0f} (median {middle:.0f})"
