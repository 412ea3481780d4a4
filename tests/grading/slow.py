"""Functions that break a bound, for the worker process of `Bounded` to import."""

from __future__ import annotations

import os
import time


def double(number: int) -> int:
    return 2 * number


def process() -> int:
    return os.getpid()


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "awake"


def tower() -> int:
    return int(9 ** (9**9))  # holds the interpreter: only the kernel can end it


def eat() -> int:
    return len(bytearray(1 << 40))


def recurse() -> int:
    return 1 + recurse()


def die() -> None:
    os._exit(3)


def fail() -> None:
    raise ZeroDivisionError("by nought")


def miss() -> None:
    raise ImportError("pip install 'vlrft[math]'")


def shout() -> str:
    print("noise on standard output")
    return "said"
