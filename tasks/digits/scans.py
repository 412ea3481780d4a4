"""The 1,797 scanned 8×8 digits of scikit-learn (UCI optical recognition test set), split once and
for all."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

SPLITS = ("train", "validation", "test")
# Tenths of each digit's scans.
TENTHS = {"train": range(6), "validation": range(6, 7), "test": range(7, 10)}


@lru_cache(maxsize=1)
def _scans() -> tuple[tuple[Image, ...], tuple[int, ...]]:
    """The scans as 8×8 grey images and what they show."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError("task digits needs scikit-learn: pip install 'vlrft[digits]'") from None
    from PIL import Image

    found, shown = load_digits(return_X_y=True)
    pixels = (found.reshape(-1, 8, 8) * (255 / 16)).round().astype("uint8")
    return tuple(map(Image.fromarray, pixels)), tuple(map(int, shown))


def scan(index: int) -> Image:
    """One scan, ink bright on black."""
    return _scans()[0][index]


@lru_cache(maxsize=len(SPLITS))
def scans_of(split: str) -> Mapping[int, tuple[int, ...]]:
    """Digit -> the indices of its scans in a split; every scan is in exactly one split."""
    labels = _scans()[1]
    out: dict[int, tuple[int, ...]] = {}
    for digit in range(10):
        own = [i for i, label in enumerate(labels) if label == digit]
        random.Random(f"digits {digit}").shuffle(own)
        tenths = TENTHS[split]
        out[digit] = tuple(own[len(own) * tenths.start // 10 : len(own) * tenths.stop // 10])
    return out
