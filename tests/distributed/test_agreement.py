"""Ranks that were started differently are found before they work together."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import pytest

from vlrft.distributed.agreement import ADVICE, MAX_LINES, disagreements, require_agreement
from vlrft.distributed.ranks import Ranks, join_ranks
from vlrft.schema.errors import ConfigError, RanksError


class Other(Ranks):
    """Rank 0 of two; the other has these facts."""

    facts: dict[str, str]

    def gather(self, items: Sequence[Any]) -> list[list[Any]]:
        return [list(items), [self.facts]]


def with_other(**facts: str) -> Ranks:
    other = Other(size=2)
    object.__setattr__(other, "facts", facts)
    return other


def test_equal_facts_pass_and_one_rank_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []

    def agree(facts: list[object]) -> list[str]:
        compared.append(facts)
        return []

    monkeypatch.setattr("vlrft.distributed.agreement.disagreements", agree)
    require_agreement(with_other(lr="1"), {"lr": "1"})
    assert compared == [[{"lr": "1"}, {"lr": "1"}]]
    require_agreement(Ranks(), {"lr": "1"})
    assert len(compared) == 1


def test_each_difference_is_named_with_the_values_and_their_ranks() -> None:
    with pytest.raises(ConfigError) as error:
        require_agreement(with_other(lr="0.1", steps="3", seed="1"), {"lr": "0.2", "seed": "1"})
    assert error.value.exit_code == 2
    assert error.value.mistakes == [
        "lr differs between ranks: 0.2 on rank 0; 0.1 on rank 1",
        "steps differs between ranks: nothing on rank 0; 3 on rank 1",
        ADVICE,
    ]


def test_ranks_with_the_same_value_are_listed_together() -> None:
    facts = [{"lr": "1"}, {"lr": "2"}, {"lr": "1"}] + [{"lr": "3"}] * 12
    (line,) = disagreements(facts)
    assert line.endswith(": 1 on ranks 0, 2; 2 on rank 1; 3 on ranks 3, 4, 5, 6, 7, 8, 9, 10, …")


def test_long_values_and_many_differences_are_cut() -> None:
    facts = {f"key {k}": "x" * 1000 for k in range(30)}
    with pytest.raises(ConfigError) as error:
        require_agreement(with_other(), facts)
    assert len(error.value.mistakes) == MAX_LINES + 2
    assert error.value.mistakes[-2] == "… and 20 more differences"
    assert max(map(len, error.value.mistakes)) < 250


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task.options.api_key", '"abcdefgh12345678"'),
        ("task.options.data", '"https://me:abcdefgh12345678@host/data"'),
        ("policy.model", '"hf_abcdefgh12345678"'),
    ],
)
def test_secrets_are_compared_but_not_shown(name: str, value: str) -> None:
    (line,) = disagreements([{name: value}, {name: value.replace("5", "6")}])
    assert "abcdefgh" not in line
    assert line.startswith(f"{name} differs between ranks: ")
    assert line.count("<redacted>") == 2


def test_a_rank_that_is_alone_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, value)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    monkeypatch.setattr("vlrft.distributed.ranks.JOIN_SECONDS", 0.2)
    with pytest.raises(RanksError, match="rank 0: the other ranks cannot be met at localhost:"):
        join_ranks("cpu", timeout=3600)
