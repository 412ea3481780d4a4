"""Parameter names determine how a reward is called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, List  # noqa: UP035 (a form that people write)

import pytest

from vlrft.plugins.reward_signature import signature_of
from vlrft.schema.errors import PluginError


async def _async(completion: str, sample: object) -> float:
    return 0.0


class Judge:
    async def __call__(self, completions: list[str], samples: list[object]) -> list[float]:
        return []


@pytest.mark.parametrize(
    ("function", "scope", "asynchronous"),
    [
        (lambda completion, sample: 0, "rollout", False),
        (lambda sample, completion, limit=3: 0, "rollout", False),
        (lambda completion, sample, **more: 0, "rollout", False),
        (lambda completion, sample, progress: 0, "rollout", False),
        (lambda completions, progress, sample: [], "group", False),
        (lambda completions, sample: [], "group", False),
        (lambda completions, samples: [], "batch", False),
        (lambda completions: [], "columns", False),
        (lambda completion_ids, **kwargs: [], "columns", False),
        (lambda prompts, answer: [], "columns", False),
        (lambda prompts, completions, **kwargs: [], "columns", False),
        (lambda completions, solution, **kwargs: [], "columns", False),
        (lambda completions, completion_ids, answer=None: [], "columns", False),
        (_async, "rollout", True),
        (Judge(), "batch", True),
        (functools.partial(_async), "rollout", True),
        (functools.partial(lambda completion, sample, limit: 0, limit=3), "rollout", False),
    ],
)
def test_the_scope_is_read_from_the_names(
    function: Callable[..., Any], scope: str, asynchronous: bool
) -> None:
    signature = signature_of(function)
    assert (signature.scope, signature.asynchronous) == (scope, asynchronous)


def test_progress_that_a_partial_has_set_is_left_as_it_is() -> None:
    def late(completion: str, sample: object, progress: float, limit: int = 3) -> float:
        return progress

    assert signature_of(late).progress
    assert signature_of(functools.partial(late, limit=4)).progress
    assert not signature_of(functools.partial(late, progress=0.5)).progress


@pytest.mark.parametrize(
    "function",
    [
        lambda: 0,
        lambda text, gold: 0,
        lambda completion: 0,
        lambda completion, sample, limit: 0,
        lambda completion, samples: 0,
        lambda completions, sample, answer: 0,
        lambda *args: 0,
        lambda **kwargs: 0,
        lambda completion, sample, /: 0,
        max,
        Judge,
        3,
    ],
)
def test_anything_else_is_refused_in_one_line(function: object) -> None:
    with pytest.raises(PluginError) as caught:
        signature_of(function)
    assert "\n" not in str(caught.value)
    assert "(completion, sample)" in str(caught.value) or "is a class" in str(caught.value)


def test_the_parameters_of_trl_functions() -> None:
    def plain(completions: list[str], answer: list[str], scale: float = 1.0) -> list[float]:
        return []

    def old(completions: List[str]) -> list[float]:  # noqa: UP006
        return []

    def chat(completions: list[list[dict[str, str]]], **kwargs: Any) -> list[float]:
        return []

    signature = signature_of(plain)
    assert signature.wants == ("completions", "answer", "scale")
    assert signature.needs == {"completions", "answer"}
    assert (signature.strings, signature.rest) == (True, False)
    assert signature_of(old).strings
    assert (signature_of(chat).strings, signature_of(chat).rest) == (False, True)
