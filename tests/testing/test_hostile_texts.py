"""Hostile texts from fixed seeds, to every reader of text and to the strict graders; and two cases of the campaign."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from vlrft.plugins.find import find_grader
from vlrft.schema import Sample
from vlrft.testing.hostile_parsing import PARSERS, Parser, try_parser
from vlrft.testing.hostile_texts import hostile_answer, hostile_text, mutate, nest

ROOT = Path(__file__).parents[2]
GOLDS = {
    "math_answer": ("\\frac{8317}{4409}", "math"),
    "choice": ("persian cat", "choice"),
    "classname": ("red-winged blackbird", "choice"),
    "count": (8317, "count"),
    "boxes": ((113, 217, 611, 729), "box"),
    "point": ((113, 217, 117, 221), "point"),
    "countdown": ({"nums": [83, 17, 91], "target": 8317}, "countdown"),
    "temporal_iou": ((113.5, 117.25), "segment"),
}


def texts(seed: int, count: int, limit: int) -> list[str]:
    random = Random(seed)
    return [hostile_text(random, limit) for _ in range(count)]


def test_equal_seeds_draw_equal_texts_within_the_limit() -> None:
    drawn = texts(3, 200, 500)
    assert drawn == texts(3, 200, 500) != texts(4, 200, 500)
    assert max(map(len, drawn)) <= 500
    assert sum(len(text) > 100 for text in drawn) > 40  # not only short ones


def test_texts_are_nested_deeper_than_python_recurses() -> None:
    random = Random(0)
    assert any(nest(random, 9000).count("(") > 1000 for _ in range(40))


# The chat's reader is tried by tests of its own, with every special token.
@pytest.mark.parametrize("name", sorted({*PARSERS} - {"chat"}))
def test_a_reader_of_text_raises_only_documented_errors(name: str) -> None:
    random, parser = Random(5), PARSERS[name]
    good = [mutate(random, random.choice(parser.examples)) for _ in range(40)]
    for text in [*parser.examples, *good, *texts(6, 40, 3000)]:
        problem = try_parser(parser, text.encode("utf-8", "surrogatepass"))
        assert problem is None, (text[:200], problem)


@pytest.mark.parametrize("name", sorted({*PARSERS} - {"chat"}))
def test_a_reader_takes_its_examples(name: str) -> None:
    read = [PARSERS[name].read(text.encode()) for text in PARSERS[name].examples[:1]]
    assert read == [None]


def test_undocumented_exceptions_and_broken_promises_are_problems() -> None:
    def fail(content: bytes) -> str | None:
        raise KeyError(content)

    assert try_parser(Parser(read=fail), b"x") == "raises KeyError: b'x'"
    assert try_parser(Parser(read=fail, errors=(KeyError,)), b"x") is None
    assert try_parser(Parser(read=lambda content: "twice"), b"x") == "twice"


@pytest.mark.parametrize("name", sorted(GOLDS))
def test_a_strict_grader_neither_raises_nor_pays_for_a_hostile_answer(name: str) -> None:
    gold, kind = GOLDS[name]
    sample, grader, random = (
        Sample(id="s", messages=(), answer=gold, tags={"answer": kind}),
        find_grader(name),
        Random(7),
    )
    for _ in range(60):
        answer = hostile_answer(random, 3000)
        assert grader(answer, sample) == 0.0, answer[:200]


def test_a_campaign_of_two_cases_prints_its_table_and_continues_its_records(
    tmp_path: Path,
) -> None:
    records = tmp_path / "records.jsonl"
    command = [sys.executable, "-m", "benchmarks.campaign", "--kinds", "answers", "--cases", "1"]
    outputs = [
        subprocess.run(
            [*command, "--records", str(records)], cwd=ROOT, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    ]
    assert "| answers | 1 |" in outputs[0]
    assert "| answers | 2 |" in outputs[1]
    assert records.read_text().count("\n") == 2
