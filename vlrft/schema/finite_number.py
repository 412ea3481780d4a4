"""Reads the number that foreign code returned as a reward or a score."""

from __future__ import annotations

import math
from numbers import Real

from vlrft.schema.short_message import short_message

LARGEST = 1e30  # sums and squares of such numbers are finite in float64, and the numbers in float32


def read_finite(value: object) -> float:
    """The value as a float: a Python number, a bool, or a NumPy or torch scalar.

    Raises ValueError for anything else, for NaN, and for numbers beyond ±1e30; its message is the end of a sentence, such
    as "a str, not a number".
    """
    if type(value) is float and abs(value) <= LARGEST:  # the most frequent case
        return value
    kind = type(value).__name__
    try:
        number = getattr(value, "tolist", lambda: value)()
        real = float(number) if isinstance(number, Real) else None
    except OverflowError:
        raise ValueError(f"a number beyond ±{LARGEST:g} ({kind})") from None
    except Exception as e:
        raise ValueError(f"a {kind} that cannot be read as a number ({short_message(e)})") from e
    if real is None:
        raise ValueError(f"a {kind}, not a number")
    if not math.isfinite(real):
        raise ValueError(f"{real}, not a finite number")
    if abs(real) > LARGEST:
        raise ValueError(f"{real:g}, a number beyond ±{LARGEST:g}")
    return real
