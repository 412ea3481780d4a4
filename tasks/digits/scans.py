"""The 1,797 scanned 8×8 digits of scikit-learn (UCI optical recognition test set), in fixed splits."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vlrft.schema.errors import PluginError

if TYPE_CHECKING:
    from PIL.Image import Image

SPLITS = ("train", "validation", "test")
TENTHS = {"train": range(6), "validation": range(6, 7), "test": range(7, 10)}
"""Tenths of each digit's scans."""


@lru_cache(maxsize=1)
def _scans() -> tuple[tuple[Image, ...], tuple[int, ...]]:
    """The scans as 8×8 grey images, and their digits, as `sklearn.datasets.load_digits` reads them. Raises PluginError without
    scikit-learn."""
    import numpy as np
    from PIL import Image

    rows = np.loadtxt(_file_of_scikit_learn(), delimiter=",", dtype=np.uint8)
    pixels = (rows[:, :-1].reshape(-1, 8, 8) * (255 / 16)).round().astype("uint8")
    return tuple(map(Image.fromarray, pixels)), tuple(map(int, rows[:, -1]))


def _file_of_scikit_learn() -> Path:
    """Its table of the scans: 64 pixels from 0 to 16 and the digit in a row. To import scikit-learn takes longer than all else that
    a pack does at the start of a process."""
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise PluginError("task digits needs scikit-learn: pip install 'vlrft[digits]'")
    return Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")


def scan(index: int) -> Image:
    """One scan, bright ink on black."""
    return _scans()[0][index]


def draw_digit(rng: random.Random, digit: int, split: str, side: int) -> Image:
    """One of the digit's scans in a split, enlarged to a square of `side` pixels."""
    from PIL import Image

    drawn = scan(rng.choice(scans_of(split)[digit]))
    return drawn.resize((side, side), Image.Resampling.BICUBIC)


@lru_cache(maxsize=len(SPLITS))
def scans_of(split: str) -> Mapping[int, tuple[int, ...]]:
    """Digit -> the indices of its scans in a split; every scan is in exactly one split."""
    labels = _scans()[1]
    by_digit: dict[int, tuple[int, ...]] = {}
    for digit in range(10):
        indices = [i for i, label in enumerate(labels) if label == digit]
        random.Random(f"digits {digit}").shuffle(indices)
        tenths = TENTHS[split]
        start, stop = (len(indices) * tenth // 10 for tenth in (tenths.start, tenths.stop))
        by_digit[digit] = tuple(indices[start:stop])
    return by_digit
