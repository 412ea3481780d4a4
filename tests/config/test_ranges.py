"""Every number in settings has a range, and a number outside of it is one line of a message before anything runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError

from vlrft.advantages import STEPS
from vlrft.algorithms.algorithm import Reference, Schedule
from vlrft.cli.main import main
from vlrft.config import Config, Range
from vlrft.config.errors import keys_of
from vlrft.config.load import load_config
from vlrft.engine import ENGINES
from vlrft.objectives.correction import Correction
from vlrft.objectives.find import OBJECTIVES
from vlrft.objectives.regularizer import Regularizer
from vlrft.plugins.find import find_task, task_names
from vlrft.rollout.engines import ROLLOUT_ENGINES
from vlrft.schema.errors import ConfigError
from vlrft.schema.ranges import MAX_INTEGER, Natural, Positive, Share
from vlrft.selection.group_filters import KEEPS
from vlrft.selection.prompt_strategies import PROMPT_STRATEGIES
from vlrft.selection.replay import Replay
from vlrft.selection.rollout_filters import SELECTORS

CONFIG = """
task: digits
policy: {build: {family: qwen2_vl}}
stages: [{algorithm: sft, steps: 5}, {steps: 7}]
"""
NUMBERS = (int, float)


def numbers(hint: Any, path: str, found: Range | None = None) -> Iterator[tuple[str, Any, Any]]:
    """The numbers in a type: path, number type, its range."""
    if hint in NUMBERS:
        yield path, hint, found
    elif get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        here = next((item for item in metadata if isinstance(item, Range)), found)
        yield from numbers(inner, path, here)
    elif dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        for f in dataclasses.fields(hint):
            yield from numbers(hints[f.name], f"{path}.{f.name}")
    elif get_origin(hint) in (tuple, list, dict, Union, UnionType):
        for k, part in enumerate(get_args(hint)):
            yield from numbers(part, f"{path}.{k}" if get_origin(hint) is tuple else path)


@dataclasses.dataclass
class Inner:
    shares: tuple[Share, float]


@dataclasses.dataclass
class Outer:
    inner: Inner | None
    weights: dict[str, float]
    count: Positive | None
    name: Literal["a"] | str


def settings() -> dict[str, Any]:
    """Every dataclass that a config makes."""
    kinds: dict[str, Any] = {
        "config": Config,
        "correction": Correction,
        "regularize": Regularizer,
        "reference": Reference,
        "schedule": Schedule,
        "replay": Replay,
    }
    kinds |= {f"objective {name}": kind for name, kind in OBJECTIVES.items()}
    for table in (KEEPS, SELECTORS, STEPS, PROMPT_STRATEGIES, ENGINES, ROLLOUT_ENGINES):
        kinds |= {name: table[name] for name in table if isinstance(table[name], type)}
    return kinds | {f"task {name}": find_task(name).options for name in task_names()}


KINDS = settings()


@pytest.mark.parametrize("name", KINDS)
def test_every_number_in_settings_has_a_range(name: str) -> None:
    missing = [path for path, _, found in numbers(KINDS[name], name) if found is None]
    assert not missing


def test_the_walk_sees_the_numbers_of_every_kind_of_type() -> None:
    found = {path: allowed for path, _, allowed in numbers(Outer, "x")}
    assert set(found) == {"x.inner.shares.0", "x.inner.shares.1", "x.weights", "x.count"}
    assert [path for path, allowed in found.items() if allowed is None] == [
        "x.inner.shares.1",
        "x.weights",
    ]
    assert sum(1 for _ in numbers(Config, "config")) > 60


def outside(kind: Any, allowed: Range) -> Iterator[float]:
    """Numbers next to the bounds, and those that no range has."""
    step = 1 if kind is int else 1e-6
    if allowed.ge is not None:
        yield allowed.ge - step
    if allowed.le is not None:
        yield allowed.le + step
    if allowed.gt is not None:
        yield allowed.gt
    if allowed.lt is not None:
        yield allowed.lt
    yield from (10**400, True) if kind is int else (math.inf, -math.inf, math.nan, True)


@pytest.mark.parametrize("name", KINDS)
def test_numbers_outside_of_their_range_are_refused_and_defaults_are_inside(name: str) -> None:
    for path, kind, allowed in numbers(KINDS[name], name):
        number_type: Any = Annotated[kind, allowed]
        check: TypeAdapter[Any] = TypeAdapter(number_type)
        for number in outside(kind, allowed):
            with pytest.raises(ValidationError):
                check.validate_python(number)
        assert path
    for f in dataclasses.fields(KINDS[name]):
        if f.default is not dataclasses.MISSING:
            hint = get_type_hints(KINDS[name], include_extras=True)[f.name]
            TypeAdapter(hint).validate_python(f.default)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., list[str]]:
    """The mistakes of a config with these overrides."""

    def mistakes(*overrides: str) -> list[str]:
        path = tmp_path / "c.yaml"
        path.write_text(CONFIG)
        with pytest.raises(ConfigError) as caught:
            load_config(path, overrides)
        return [m.replace(f"{tmp_path}/", "") for m in caught.value.mistakes]

    return mistakes


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "stages.1.update.betas=[5.0,-1.0]",
            "stages.1.update.betas.0: 5.0 is out of range; allowed: at least 0 and less than 1",
        ),
        ("stages.1.update.lr=.inf", "stages.1.update.lr: inf is out of range; allowed: at least 0"),
        (
            "update.lr=1e31",
            "update.lr: 1e+31 is out of range; allowed: at least 0, and in size 0 or from 1e-30 to 1e+30",
        ),
        (
            "rollout.temperature=1e-31",
            "rollout.temperature: 1e-31 is out of range; allowed: greater than 0, and in size 0 or from 1e-30 to 1e+30",
        ),
        (
            "task.options.canvas=[5000]",
            "task.options.canvas.0: 5000 is out of range; allowed: from 1 to 4096",
        ),
        (
            "policy.build.layers:1=null",
            "policy.build.layers:1: unknown key; did you mean layers: 1, with a space after the colon?",
        ),
        ("update.lr=true", "update.lr: expected a number, got True"),
        ("update.lr='1e-3'", "update.lr: expected a number, got '1e-3'"),
        (
            "rollout.temperature=.inf",
            "rollout.temperature: inf is out of range; allowed: greater than 0",
        ),
        (
            "rollout.top_p=.nan",
            "rollout.top_p: nan is out of range; allowed: greater than 0 and at most 1",
        ),
        ("rollout.stop=['']", "rollout.stop.0: expected a text of at least one character, got ''"),
        (
            "seed=-1",
            "seed: -1 is out of range; allowed: from 0 to 9223372036854775807",
        ),
        (
            "rollout.max_rows=3000000000",
            f"rollout.max_rows: 3000000000 is out of range; allowed: from 1 to {MAX_INTEGER}",
        ),
        (
            "policy.build.vocab_size=1",
            "policy.build.vocab_size: 1 is out of range; allowed: from 256 to 1000000",
        ),
        ("task.options.train=-1", "task.options.train: -1 is out of range; allowed: at least 0"),
        (
            "task.rewards={choice: .inf}",
            "task.rewards.choice.weight: inf is out of range; allowed: every finite number",
        ),
    ],
)
def test_a_number_out_of_range_is_one_line_with_what_is_allowed(
    load: Callable[..., list[str]], override: str, line: str
) -> None:
    assert load(override)[0] == f"c.yaml: {line}"


def test_an_integer_of_thousands_of_digits_is_not_printed(load: Callable[..., list[str]]) -> None:
    (line,) = load(f"seed=0x{'f' * 9000}")
    assert line == (
        "c.yaml: seed: an int too long to print is out of range; allowed: from 0 to 9223372036854775807"
    )
    (line,) = load(f"profile={'x' * 500}")
    assert line == f"c.yaml: profile: expected true or false, got '{'x' * 79}…"


def test_a_stage_that_runs_later_is_checked_before_the_first_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(CONFIG)
    for command in ("train", "show"):
        code = main([command, "c.yaml", "stages.1.update.betas=[5.0,-1.0]"])
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        assert err.splitlines() == [
            "vlrft: c.yaml: stages.1.update.betas.0: 5.0 is out of range; allowed: at least 0 and less than 1",
            "c.yaml: stages.1.update.betas.1: -1.0 is out of range; allowed: at least 0 and less than 1",
        ]
    assert [p.name for p in Path().iterdir()] == ["c.yaml"]


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (Range(), "every finite number"),
        (Range(ge=0), "at least 0"),
        (Range(gt=0, le=1), "greater than 0 and at most 1"),
        (Range(ge=2, le=5), "from 2 to 5"),
        (Range(lt=3), "less than 3"),
    ],
)
def test_a_range_in_words(allowed: Range, words: str) -> None:
    assert str(allowed) == words


def test_an_integer_is_a_float_but_neither_a_truth_value_nor_a_text_is_a_number() -> None:
    assert TypeAdapter(Share).validate_python(1) == 1.0
    assert TypeAdapter(Natural).validate_python(0) == 0
    for kind in (Share, Natural):
        for value in (True, "1", None, [1]):
            with pytest.raises(ValidationError):
                TypeAdapter(kind).validate_python(value)


def test_the_keys_of_a_config_are_those_that_the_walk_sees() -> None:
    seen = {path.removeprefix("config.") for path, _, _ in numbers(Config, "config")}
    assert {"seed", "update.lr", "ranks.step_timeout"} <= seen & set(keys_of(Config))
