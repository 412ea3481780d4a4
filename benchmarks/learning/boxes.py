"""A picture of a grounding run's answers: gold boxes solid, predicted boxes dashed, IoU below each scene.

    python -m benchmarks.learning boxes RUN [RUN ...] --out boxes.png [--each 8]

A row per run: the first records of its last evaluation whose gold answer is a box, in the order of the split.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image, ImageDraw

from vlrft.config.load import load_config
from vlrft.reporting.html.cards import box_overlays
from vlrft.reporting.html.overlay import Overlay
from vlrft.reporting.html.run_data import JsonRow, read_run
from vlrft.rollout.task import load_task
from vlrft.vision.boxes import is_box

SIDE, CAPTION, GAP = 168, 18, 8
COLOURS = {"true": "#2fd07f", "predicted": "#ff5c8a"}


def make_tiles(run: Path, count: int) -> list[Image.Image]:
    """Tiles of the first `count` samples of a run's last evaluation whose gold answer is a box."""
    config = load_config(run / "config.yaml")
    samples = {s.id: s for s in load_task(config.task, config.eval.split).head(config.eval.limit)}
    records = {r["id"]: r for r in read_run(run).records}
    boxed = [s for s in samples.values() if s.id in records and is_box(records[s.id]["answer"])]
    return [make_tile(s.images[0], records[s.id]) for s in boxed[:count]]


def make_tile(scene: Image.Image, record: JsonRow) -> Image.Image:
    """A scene with its boxes and its IoU."""
    image = Image.new("RGB", (SIDE, SIDE + CAPTION), "white")
    image.paste(scene.convert("RGB").resize((SIDE, SIDE), Image.Resampling.NEAREST))
    pen = ImageDraw.Draw(image)
    for box in box_overlays(record["answer"], record["output"]):
        draw(pen, box)
    pen.text((4, SIDE + 3), f"IoU {record['scores']['boxes']:.2f}", fill="black")
    return image


def draw(pen: ImageDraw.ImageDraw, box: Overlay) -> None:
    """Draw a box: solid if it is the gold answer, dashed if predicted."""
    left, top = box.left * SIDE / 100, box.top * SIDE / 100
    right, bottom = left + box.width * SIDE / 100 - 2, top + box.height * SIDE / 100 - 2
    step = 6
    for a, b, across in ((left, right, True), (top, bottom, False)):
        for other in (top, bottom) if across else (left, right):
            at = a
            while at < b:
                end = b if box.kind == "true" else min(at + step, b)
                line = (at, other, end, other) if across else (other, at, other, end)
                pen.line(line, fill=COLOURS[box.kind], width=2)
                at = end + step


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--each", type=int, default=8)
    args = parser.parse_args()
    rows = [make_tiles(run, args.each) for run in args.runs]
    wide = max(map(len, rows)) * (SIDE + GAP) - GAP
    sheet = Image.new("RGB", (wide, len(rows) * (SIDE + CAPTION + GAP) - GAP), "white")
    for y, row in enumerate(rows):
        for x, tile in enumerate(row):
            sheet.paste(tile, (x * (SIDE + GAP), y * (SIDE + CAPTION + GAP)))
    sheet.save(args.out)


if __name__ == "__main__":
    main()
