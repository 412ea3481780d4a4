"""Descriptions of a pack's samples: statistics as text, and a contact sheet with the gold boxes drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vlrft.data.atomic import write_atomically
from vlrft.reporting.html.cards import STRIP_PIXELS, gold_overlays, image_uri
from vlrft.reporting.html.overlay import Overlay, Strip
from vlrft.reporting.html.segments import segment_overlays
from vlrft.reporting.html.template import load_template
from vlrft.reporting.strips import draw_strip
from vlrft.schema import Sample
from vlrft.schema.sample import part_text

MEASURED_SAMPLES = 500  # of a split, for the statistics
SHEET_SAMPLES = 48  # of a split, on the contact sheet


def describe_samples(samples: Sequence[Sample]) -> list[str]:
    """Lines with the tags, lengths of questions and sizes of images of the first MEASURED_SAMPLES samples."""
    measured = [samples[i] for i in range(min(MEASURED_SAMPLES, len(samples)))]
    lines = [f"  (over the first {len(measured)})"] if len(measured) < len(samples) else []
    tags: dict[str, Counter[str]] = {}
    for sample in measured:
        for key, value in sample.tags.items():
            tags.setdefault(key, Counter())[value] += 1
    for key, counts in tags.items():
        common = ", ".join(f"{_short(v, 24)} {n}" for v, n in counts.most_common(6))
        more = f", {len(counts) - 6} more" if len(counts) > 6 else ""
        lines.append(f"  {key}: {common}{more}")
    lengths = [len(question_text(s)) for s in measured]
    lines.append(f"  question: {_range(lengths)} characters")
    images = Counter(len(s.images) for s in measured)
    lines.append(f"  images a sample: {', '.join(f'{k} ({n})' for k, n in sorted(images.items()))}")
    videos = Counter(len(s.videos) for s in measured)
    if set(videos) != {0}:
        lines.append(
            f"  videos a sample: {', '.join(f'{k} ({n})' for k, n in sorted(videos.items()))}"
        )
        lines.append(f"  frames a video: {_range([len(v) for s in measured for v in s.videos])}")
    sizes = [image.size for s in measured for image in s.images]
    if sizes:
        width, height = zip(*sizes, strict=True)
        lines.append(f"  width: {_range(width)} pixels; height: {_range(height)} pixels")
    return lines


def describe_sample(sample: Sample) -> list[str]:
    """Lines with a sample's id, question, answer and sizes of images."""
    sizes = ", ".join(f"{i.width} × {i.height}" for i in sample.images) or "none"
    return [
        f"  {sample.id}",
        f"    question: {_short(question_text(sample), 300)}",
        f"    answer: {_short(str(sample.answer), 120)}   images: {sizes}",
        *(
            f"    video: {len(v)} frames of {v.size[0]} × {v.size[1]}, {v.source_seconds:g} seconds"
            for v in sample.videos
        ),
    ]


def write_sheet(path: Path, task: str, splits: Sequence[tuple[str, Sequence[Sample]]]) -> None:
    """Writes one self-contained HTML page: evenly spaced samples of each split."""
    sections: list[dict[str, Any]] = []
    for split, samples in splits:
        count = min(SHEET_SAMPLES, len(samples))
        cards = [_card(samples[i * len(samples) // count]) for i in range(count)]
        sections.append({"split": split, "n": len(samples), "cards": cards})
    page = load_template("sheet.html").render(task=task, sections=sections)
    write_atomically(path, page.encode("utf-8", "replace"))


def question_text(sample: Sample) -> str:
    """The text of a sample's messages, with `<image>` for each image."""
    return "\n".join(
        "".join(map(part_text, message.content)) for message in sample.messages
    ).strip()


def make_strips(sample: Sample, text: str = "") -> tuple[Strip, ...]:
    """The sample's videos with its gold segment, and the one that the completion `text` names."""
    return tuple(
        Strip(
            image=image_uri(draw_strip(video), STRIP_PIXELS),
            segments=segment_overlays(sample.answer, text, video.source_seconds),
        )
        for video in sample.videos
    )


def _card(sample: Sample) -> dict[str, Any]:
    boxes: tuple[Overlay, ...] = gold_overlays(sample.answer)
    return {
        "id": sample.id,
        "images": [image_uri(image) for image in sample.images],
        "boxes": boxes if len(sample.images) == 1 else (),
        "strips": make_strips(sample),
        "question": _short(
            question_text(sample).replace("<image>", "").replace("<video>", "").strip(), 400
        ),
        "answer": _short(str(sample.answer), 200),
        "tags": {k: _short(v, 40) for k, v in sample.tags.items()},
    }


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit] + " …"


def _range(values: Sequence[int]) -> str:
    low, middle, high = np.quantile(values, [0, 0.5, 1])
    return f"{low:.0f} to {high:.0f} (median {middle:.0f})"
