"""A Python function in a forked copy of this process: a crash or a hang there is a finding, not the campaign's end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.campaign.process import Child, Ended


def call_in_child(function: Callable[[], Any], folder: Path) -> tuple[Any, Ended]:
    """The function's value, which has to be JSON, and how the copy ended; the value is None where it gave none."""
    answer = folder / "value.json"

    def run() -> int:
        answer.write_text(json.dumps(function()))
        return 0

    ended = Child(folder, run, command="in process", log=folder / "log").wait()
    value = json.loads(answer.read_text()) if ended.code == 0 and answer.exists() else None
    return value, ended
