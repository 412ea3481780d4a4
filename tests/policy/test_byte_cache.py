"""What is kept within a number of bytes."""

from __future__ import annotations

from vlrft.policy.byte_cache import ByteCache


def test_what_was_not_used_for_longest_goes() -> None:
    kept = ByteCache[str](1000)
    kept.put("a", "A", 400)
    kept.put("b", "B", 400)
    assert kept.get("a") == "A"
    kept.put("c", "C", 400)
    assert kept.get("b") is None
    assert (kept.get("a"), kept.get("c")) == ("A", "C")
    assert kept.bytes == 800


def test_a_value_put_twice_counts_once_and_one_that_is_too_large_is_not_kept() -> None:
    kept = ByteCache[str](1000)
    kept.put("a", "A", 400)
    kept.put("a", "A again", 600)
    assert (kept.get("a"), kept.bytes) == ("A again", 600)
    kept.put("b", "B", 1001)
    assert kept.get("b") is None
    assert kept.bytes == 0
