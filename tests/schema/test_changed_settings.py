"""Settings that differ from their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from vlrft.schema.changed_settings import changed_settings


@dataclass
class Settings:
    needed: int
    plain: float = 1.0
    names: list[str] = field(default_factory=list)


def test_settings_that_differ_from_their_defaults_have_their_values() -> None:
    assert changed_settings(Settings(3)) == {}
    assert changed_settings(Settings(3, plain=1)) == {}
    assert changed_settings(Settings(3, names=["a"], plain=2.0)) == {"plain": 2.0, "names": ["a"]}
