"""Things that a config chooses by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from vlrft.config import strict
from vlrft.config.choice import change, choose, find_or_load
from vlrft.schema.errors import ConfigError


@strict
class Fixed:
    rate: float = 0.5


@strict
class Ramp:
    start: Annotated[float, Field(alias="from")] = 0.0
    steps: int = 3

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError("A ramp needs a step")


RATES: Mapping[str, type[Fixed] | type[Ramp]] = {"fixed": Fixed, "ramp": Ramp}


def mistakes(value: Any, default: Fixed | Ramp | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        choose(value, RATES, at="update.rate", default=default)
    return caught.value.mistakes


def test_a_name_or_a_mapping_with_settings_becomes_an_instance() -> None:
    assert choose("fixed", RATES, at="rate") == Fixed()
    assert choose({"name": "ramp", "from": 1.0, "steps": 4}, RATES, at="rate") == Ramp(
        **{"from": 1.0, "steps": 4}  # type: ignore[arg-type]
    )


def test_a_mapping_without_a_name_changes_the_default() -> None:
    assert choose({"rate": 0.25}, RATES, at="rate", default=Fixed(rate=0.1)) == Fixed(rate=0.25)
    assert choose("ramp", RATES, at="rate", default=Fixed(rate=0.1)) == Ramp()
    assert change(Fixed(rate=0.1), {}, "rate") == Fixed(rate=0.1)


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("fixd", ["update.rate: unknown name 'fixd'; did you mean fixed? known: fixed, ramp"]),
        ({"name": 3}, ["update.rate: unknown name '3'; known: fixed, ramp"]),
        ({"rate": 1}, ["update.rate: needs a `name`; known: fixed, ramp"]),
        (3, ["update.rate: expected a name (fixed, ramp) or {name: …}, got 3"]),
        ({"name": "ramp", "step": 2}, ["update.rate.step: unknown key; did you mean steps?"]),
        ({"name": "ramp", "form": 2}, ["update.rate.form: unknown key; did you mean from?"]),
        ({"name": "fixed", "zzz": 2}, ["update.rate.zzz: unknown key; allowed: rate"]),
        ({"name": "ramp", "steps": 0}, ["update.rate: a ramp needs a step"]),
        (
            {"name": "ramp", "from": "x", "steps": "y"},
            [
                "update.rate.from: expected a number, got 'x'",
                "update.rate.steps: expected a whole number, got 'y'",
            ],
        ),
    ],
)
def test_every_mistake_has_its_place_and_a_hint(value: Any, lines: list[str]) -> None:
    assert mistakes(value) == lines


def test_changes_must_be_a_mapping() -> None:
    with pytest.raises(ConfigError, match=r"rate: expected a mapping of rate, got 3"):
        change(Fixed(), 3, "rate")


def test_a_reference_is_loaded_and_a_broken_one_is_a_mistake_of_its_key(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("half = 0.5\n")
    assert find_or_load(f"{tmp_path}/mine.py:half", {"one": 1}, at="rate", kind="rate") == 0.5
    assert find_or_load("one", {"one": 1}, at="rate", kind="rate") == 1
    with pytest.raises(ConfigError, match=r"^rate: .*mine.py has no 'haf'; did you mean half\?$"):
        find_or_load(f"{tmp_path}/mine.py:haf", {"one": 1}, at="rate", kind="rate")
