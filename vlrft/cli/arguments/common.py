"""Help texts and kinds of arguments that several commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from vlrft.schema.ranges import Range

CONFIG = (
    "a YAML file, a name that `vlrft list configs` prints, or system:NUMBER of `vlrft list systems`"
)
TASK = "a name that `vlrft list tasks` prints, package.module:task or ./file.py:task"
REWARD = "a name that `vlrft list rewards` prints, package.module:function or ./file.py:function"
OVERRIDES = (
    "changed config keys: key.path=value, such as rollout.group_size=16 or stages.1.steps=50"
)
OPTIONS = "options of the task, such as options.k=4"
SPLITS = "a split; may be repeated (default: all)"
GRADERS = ("official", "strict", "both")

COUNT = Range(ge=1)  # of samples or ranks

AddCommand = Callable[[str, str], argparse.ArgumentParser]  # name, one-line description


def not_empty(text: str) -> str:
    """The text of an option, refused where it is empty, as of a variable that is not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("empty; leave the option out, or give a value")
    return text


def path_argument(text: str) -> Path:
    """The path that an option names, with ~ for the home folder; refused where its text is empty, as of a variable that is not set:
    it would be the current folder; or where its bytes are not UTF-8."""
    if not text.strip():
        raise argparse.ArgumentTypeError("empty; expected a path")
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise argparse.ArgumentTypeError(
            "not UTF-8; configs and reports could not name such a path"
        )
    return Path(os.path.expanduser(text))  # an unknown ~user stays as it is


def number(kind: type[int] | type[float], allowed: Range) -> Callable[[str], float]:
    """An argument that is a number in a range."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"expected {what}, {allowed}; got {text!r}") from None
        if value not in allowed:
            raise argparse.ArgumentTypeError(f"{text} is out of range; allowed: {allowed}")
        return value

    return parse
