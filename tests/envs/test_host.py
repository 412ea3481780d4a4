"""Both hosts alike: an environment's error ends its own episode, and no other."""

from __future__ import annotations

import re

import pytest

from tests.envs.results import message, start_all
from tests.fakes.envs import sample
from vlrft.envs import Host, InProcess
from vlrft.schema import Observation, Step


@pytest.mark.parametrize("command", ["raise", "exit", "no step", "unsendable"])
def test_an_error_or_an_invalid_result_ends_only_its_own_episode(host: Host, command: str) -> None:
    if command == "unsendable" and isinstance(host, InProcess):
        return  # nothing is sent
    bad, good = start_all(host, sample("bad"), sample("good"))
    results = host.step({bad: command, good: "left"})
    expected = {
        "raise": r"sample bad: its environment raised KeyError: 'no such thing' \(envs\.py:\d+\) in turn 1$",
        "exit": r"sample bad: its environment raised SystemExit: 3 \(envs\.py:\d+\) in turn 1$",
        "no step": r"returned Observation, not vlrft\.schema\.Step, in turn 1$",
        "unsendable": "cannot run in another process: TypeError: cannot pickle",
    }[command]
    assert re.search(expected, message(results[bad]))
    assert isinstance(results[good], Step)
    assert host.step({bad: "left"}) == {bad: results[bad]}
    host.close([bad, good])
    with pytest.raises(KeyError):
        host.step({bad: "left"})


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("nan reward", "gave the reward as nan, not a finite number, in turn 1"),
        ("text reward", "gave the reward as a str, not a number, in turn 1"),
        ("huge reward", "gave the reward as a number beyond ±1e+30 (int), in turn 1"),
        ("nan score", "gave the score 'won' as nan, not a finite number, in turn 1"),
        ("list score", "gave the score 'won' as a list, not a number, in turn 1"),
        ("list of scores", "gave scores that cannot be read (AttributeError: 'list' object has no"),
        ("text observation", "gave a str as the observation in turn 1"),
        ("text message", "gave a str among the messages in turn 1"),
        ("no messages", "gave a NoneType as the messages in turn 1"),
    ],
)
def test_a_result_that_cannot_be_used_names_the_sample_the_turn_and_the_number(
    host: Host, command: str, problem: str
) -> None:
    bad, good = start_all(host, sample("bad"), sample("good"))
    results = host.step({bad: command, good: "left"})
    assert message(results[bad]).startswith(f"sample bad: its environment {problem}")
    assert isinstance(results[good], Step)


def test_a_start_that_raises_fails_only_its_own_environment(host: Host) -> None:
    (bad, failure), (good, first) = host.start([sample("bad", start="raise"), sample("good")])
    assert message(failure).endswith("as it started")
    assert isinstance(first, Observation)
    assert host.step({bad: "left"})[bad] == failure
    assert isinstance(host.step({good: "left"})[good], Step)


def test_a_close_that_raises_is_a_warning_and_the_others_are_closed(host: Host) -> None:
    handles = start_all(host, *(sample(n, close="raise") for n in "abc"))
    with pytest.warns(RuntimeWarning, match=r"raised KeyError.*as it was closed \(and 2 more\)"):
        host.close(handles)
    host.close(handles)
    (new,) = start_all(host, sample("a"))
    assert new not in handles
    assert isinstance(host.step({new: "left"})[new], Step)
