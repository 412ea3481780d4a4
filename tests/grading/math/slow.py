"""Functions that exceed a limit, for a worker process to import."""

from __future__ import annotations

import os


def double(number: int) -> int:
    return 2 * number


def process() -> int:
    return os.getpid()


def tower() -> int:
    value: int = 9 ** (9**9)  # holds the interpreter: only the kernel can end it
    return value


def eat() -> int:
    return len([bytearray(b"x") * (1 << 29) for _ in range(64)])


def recurse() -> int:
    return 1 + recurse()


def die() -> None:
    os._exit(3)


def fail() -> None:
    raise ZeroDivisionError("by nought")
