"""The cache that is limited in bytes."""

from __future__ import annotations

from vlrft.policy.byte_cache import ByteCache


def test_the_least_recently_used_value_is_dropped() -> None:
    cache = ByteCache[str](1000)
    cache.put("a", "A", 400)
    cache.put("b", "B", 400)
    assert cache.get("a") == "A"
    cache.put("c", "C", 400)
    assert cache.get("b") is None
    assert (cache.get("a"), cache.get("c")) == ("A", "C")
    assert cache.bytes == 800


def test_a_value_put_twice_counts_once_and_a_value_above_the_limit_is_not_kept() -> None:
    cache = ByteCache[str](1000)
    cache.put("a", "A", 400)
    cache.put("a", "A again", 600)
    assert (cache.get("a"), cache.bytes) == ("A again", 600)
    cache.put("b", "B", 1001)
    assert cache.get("b") is None
    assert cache.bytes == 0
