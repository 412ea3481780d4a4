"""The kinds of gold answers that the shipped rewards read, as samples name them by their tag `answer`."""

from __future__ import annotations

KINDS = (
    "math",
    "choice",
    "choices",
    "count",
    "countdown",
    "box",
    "bbox_2d",
    "boxes",
    "point",
    "segment",
    "text",
    "labels",
    "gui_action",
    "tool_calls",
    "trajectory",
)
