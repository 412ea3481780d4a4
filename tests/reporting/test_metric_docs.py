"""Every metric that a run writes has a meaning in the one table of them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

import vlrft
from vlrft.reporting.metric_docs import METRIC_DOCS, describe_metric

PACKAGE = Path(vlrft.__file__).parent
RUN = Path(__file__).parents[1] / "fixtures" / "old_run" / "metrics.jsonl"  # of a quickstart run
NAME = re.compile(
    r"(advantage|env|groups|kl|length|prompts|ratio|speed|time|memory|dpo|gvpo)/[a-z_]+"
)


def test_every_metric_of_a_quickstart_run_is_described() -> None:
    rows = [json.loads(line) for line in RUN.read_text().splitlines()]
    names = {name for row in rows for name in row}
    assert len(names) > 20
    assert [name for name in sorted(names) if describe_metric(name) is None] == []


def test_every_metric_that_the_code_names_is_described() -> None:
    names: set[str] = set()
    for folder in ("trainer", "objectives", "algorithms"):
        for path in (PACKAGE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    names |= {node.value} if NAME.fullmatch(node.value) else set()
    assert {"groups/valid_share", "prompts/stale_share", "env/errors"} <= names
    assert [name for name in sorted(names) if describe_metric(name) is None] == []


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("reward/choice", "mean score"),
        ("reward/judge/part", "mean score"),
        ("reward/judge/errors", "that failed"),
        ("reward/mean", "mean reward"),
        ("episode/success", "environment"),
    ],
)
def test_a_metric_with_the_name_of_a_reward_is_described(name: str, meaning: str) -> None:
    assert meaning in (describe_metric(name) or "")


def test_an_unknown_metric_has_no_meaning_and_no_meaning_is_empty() -> None:
    assert describe_metric("gorups/valid_share") is None
    assert all(text for section in METRIC_DOCS.values() for text in section.values())
