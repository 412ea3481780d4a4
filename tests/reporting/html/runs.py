"""Lines of a run that the report shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HOSTILE = "<script>alert(1)</script><answer>(100,100),(600,700)</answer>"


def rollout(step: int, reward: float, completion: str = HOSTILE) -> dict[str, Any]:
    return {
        "stage": "gpg",
        "step": step,
        "id": "a",
        "prompt": "Where?",
        "images": ["images/x.png"],
        "completion": completion,
        "reward": reward,
        "scores": {"boxes": reward, "count": None},
        "advantage": reward - 0.5,
        "answer": [0, 0, 500, 500],
        "tags": {"kind": "ground"},
        "origin": "fresh",
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
