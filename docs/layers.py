"""Draws docs/explanation/layers.svg, the picture of the layers, from the table that tests/test_layers.py enforces."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "explanation" / "layers.svg"
TABLE = ROOT / "tests" / "test_layers.py"
BOX, HIGH, GAP, ROW, WIDE = 118, 30, 10, 50, 900
OUTSIDE = "rewards/ and tasks/ are found by name; they import only schema, grading, vision (tasks: data, envs too)"


def layers() -> list[list[str]]:
    """The layers from the top down, each with its folders of vlrft/."""
    for node in ast.parse(TABLE.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="LAYERS")], value=value):
                return [sorted(layer) for layer in ast.literal_eval(value)]
            case _:
                pass
    raise ValueError(f"{TABLE} has no table LAYERS")


def picture() -> str:
    """The layers as rows of boxes, an arrow down the side for the direction of imports."""
    rows = layers()
    height = len(rows) * ROW + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height}" '
        'font-family="sans-serif" font-size="14" text-anchor="middle">',
        "<title>The layers of vlrft: a folder imports only folders of lower layers</title>",
        f'<rect width="{WIDE}" height="{height}" rx="8" fill="#f7f8fc"/>',
        f'<path d="M24 16V{height - 54}m-6 -10l6 10l6 -10" fill="none" stroke="#3f51b5" stroke-width="2"/>',
        f'<text x="40" y="{height // 2}" fill="#3f51b5" transform="rotate(-90 40 {height // 2})">imports</text>',
    ]
    for k, row in enumerate(rows):
        left = (WIDE + 40 - len(row) * (BOX + GAP)) // 2
        for n, name in enumerate(row):
            x, y = left + n * (BOX + GAP), 12 + k * ROW
            parts.append(
                f'<rect x="{x}" y="{y}" width="{BOX}" height="{HIGH}" rx="5" fill="#fff" stroke="#3f51b5"/>'
                f'<text x="{x + BOX // 2}" y="{y + 20}" fill="#222">{name}</text>'
            )
    parts.append(
        f'<text x="{WIDE // 2}" y="{height - 12}" font-size="13" fill="#555">{OUTSIDE}</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
