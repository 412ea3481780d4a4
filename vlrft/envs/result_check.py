"""Checks of what an environment returns: rewards and scores are finite numbers, observations are made of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vlrft.schema import Message, Observation, Step
from vlrft.schema.finite_number import read_finite
from vlrft.schema.short_message import short_message

PLAIN = (float, int, bool, type(None))


def check_step(step: Step) -> Step:
    """The step; NumPy and torch scalars among its numbers become Python numbers. A score may be None: it does not apply.

    Raises ValueError, which names the reward or the score that is no finite number.
    """
    if step.observation is not None:
        check_observation(step.observation)
    reward, scores, valid = _number("reward", step.reward), _scores(step.scores), bool(step.valid)
    if all(type(value) in PLAIN for value in (step.reward, step.valid, *step.scores.values())):
        return step
    return replace(step, reward=reward, scores=scores, valid=valid)


def check_observation(observation: Observation) -> Observation:
    """The observation. Raises ValueError where it holds anything but messages."""
    if not isinstance(observation, Observation):
        raise ValueError(f"gave a {type(observation).__name__} as the observation")
    if not isinstance(observation.messages, tuple | list):
        raise ValueError(f"gave a {type(observation.messages).__name__} as the messages")
    for message in observation.messages:
        if not isinstance(message, Message):
            raise ValueError(f"gave a {type(message).__name__} among the messages")
    return observation


def _scores(scores: Mapping[str, float]) -> dict[str, Any]:
    try:
        pairs = list(scores.items())
    except Exception as e:
        raise ValueError(f"gave scores that cannot be read ({short_message(e)})") from e
    return {
        str(name): value if value is None else _number(f"score {name!r}", value)
        for name, value in pairs
    }


def _number(name: str, value: object) -> float:
    try:
        return read_finite(value)
    except ValueError as e:
        raise ValueError(f"gave the {name} as {e},") from None
