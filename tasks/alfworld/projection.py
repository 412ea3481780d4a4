"""Completion -> command for the engine, as in verl-agent (commit d0b9724).

agent_system/environments/env_package/alfworld/projection.py. It does not matter whether the command is admissible.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

OPEN, CLOSE = "<action>", "</action>"
CHINESE = re.compile(r"[\u4e00-\u9fff]")
TAIL = 30  # characters of an answer without an action that are passed to the engine, which ignores them


@dataclass(frozen=True, kw_only=True)
class Action:
    command: str
    valid: bool  # an action within its tags, both thinking tags, no Chinese


def project(text: str) -> Action:
    """The text between the first tags, in lower case; without tags the end of the answer."""
    lowered = text.lower()
    start, end = lowered.find(OPEN), lowered.find(CLOSE)
    if start < 0 or end < 0:
        return Action(command=lowered[-TAIL:], valid=False)
    thought = "<think>" in text and "</think>" in text
    return Action(
        command=lowered[start + len(OPEN) : end].strip(),
        valid=thought and not CHINESE.search(text),
    )
