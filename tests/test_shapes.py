"""The shapes in annotations are checked while the tests run: jaxtyping's import hook, with beartype, checks the packages
that pyproject.toml names."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch

from vlrft.objectives import reduction
from vlrft.objectives.clip_metrics import clip_shares

PACKAGES = ("vlrft.objectives", "vlrft.algorithms", "vlrft.policy", "vlrft.rollout.engines")
# Functions with shapes in their signatures; fewer would mean that annotations were lost.
AT_LEAST = 80


def modules() -> Iterator[Any]:
    for name in PACKAGES:
        package = importlib.import_module(name)
        yield package
        for info in pkgutil.walk_packages(package.__path__, f"{name}."):
            yield importlib.import_module(info.name)


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """Functions and methods defined in the packages, by their full names, as they are called."""
    table: dict[str, Callable[..., Any]] = {}
    for module in modules():
        owners = [module, *(c for c in vars(module).values() if inspect.isclass(c))]
        for owner in owners:
            for value in vars(owner).values():
                function = value.fget if isinstance(value, property) else value
                function = getattr(function, "__func__", function)
                if inspect.isfunction(function) and function.__module__ == module.__name__:
                    table[f"{module.__name__}.{function.__qualname__}"] = function
    return table


def with_shapes() -> dict[str, Callable[..., Any]]:
    return {
        name: function
        for name, function in functions().items()
        if any("Tensor," in str(a) for a in inspect.unwrap(function).__annotations__.values())
    }


def test_annotations_can_be_resolved_at_run_time() -> None:
    """A name that only type checkers import would leave its function unchecked without a word."""
    unresolved: dict[str, str] = {}
    for name, function in functions().items():
        try:
            typing.get_type_hints(inspect.unwrap(function))
        except NameError as e:
            unresolved[name] = str(e)
    assert unresolved == {}


def test_every_function_with_shapes_is_checked() -> None:
    checked = with_shapes()
    assert len(checked) >= AT_LEAST, len(checked)
    plain = [name for name, function in checked.items() if inspect.unwrap(function) is function]
    protocols = [name for name in plain if ".objective." in name or ".types." in name]
    assert not set(plain) - set(protocols), plain


def test_a_wrong_shape_is_an_error() -> None:
    with pytest.raises(Exception, match="advantages"):
        clip_shares(torch.ones(2, 3), torch.ones(2, 4), 0.8, 1.2)
    with pytest.raises(Exception, match="terms"):
        reduction.reduce(torch.ones(2, 3), None, "token")  # type: ignore[arg-type]
