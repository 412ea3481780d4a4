"""Reads JSON that a model wrote: in a code fence or not."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCE = re.compile(r"```(?:json)?([^`]*)```")
_BETWEEN = re.compile(r"[;\n]")


def read_json(text: str) -> Any:
    """The value of a text that is a JSON list or object, or of several on lines of their own, as a list; None for any other
    text. Takes time linear in the text and never raises."""
    text = text.strip()
    fence = _FENCE.fullmatch(text)
    text = (fence[1] if fence else text).strip()
    if not text.startswith(("[", "{")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(part) for part in _BETWEEN.split(text) if part.strip()]
    except (ValueError, RecursionError):
        return None
