"""Prompts: the template of the kind of answers, or the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tasks.table.tables import load, rows, text_of, write_table
from vlrft.data import RowSamples
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import LoadedTask
from vlrft.scoring.graders import STRICT


def notes(loaded: LoadedTask) -> tuple[str, ...]:
    assert isinstance(loaded.samples, RowSamples)
    return tuple(loaded.samples.notes)


def test_a_template_names_the_question_columns_and_choices(tmp_path: Path) -> None:
    table = write_table(tmp_path, rows(["A"], hint="Look left.", choices=["red", "blue"]))
    prompt = "{hint} {question}\n{choices}\n{{Answer}} in <answer>…</answer>, {} and {1 + 2}."
    loaded = load(table, answer="choice", prompt=prompt)
    assert text_of(loaded) == (
        "<image>Look left. What is in picture 0?\n(A) red\n(B) blue\n{Answer} in <answer>…</answer>, {} and {1 + 2}."
    ).replace("<image>Look left. ", "Look left. <image>")
    assert not notes(loaded)


def test_a_template_may_be_a_file_and_place_the_picture(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Q: {question} P: <image> Answer in <answer></answer>.\n")
    loaded = load(write_table(tmp_path, rows([1])), answer="count", prompt=str(file))
    assert text_of(loaded) == "Q: What is in picture 0? P: <image> Answer in <answer></answer>."


def test_a_question_s_own_braces_and_marks_are_text(tmp_path: Path) -> None:
    (row,) = rows([1])
    table = write_table(tmp_path, [{**row, "question": "Look <image> {choices} \\frac{1}{2}"}])
    assert text_of(load(table, answer="count")).startswith("Look <image> {choices} \\frac{1}{2}\n")


def test_a_prompt_that_asks_for_a_box_of_latex_is_graded_by_it(tmp_path: Path) -> None:
    prompt = "{question} Think in <think></think>, then answer in \\boxed{{}}."
    loaded = load(write_table(tmp_path, rows(["1/2"])), answer="math", prompt=prompt)
    (sample,) = loaded.samples
    assert "answer in \\boxed{}." in text_of(loaded)
    assert gold_text(loaded.task, sample) == "<think></think>\\boxed{1/2}"
    assert all(r.function(gold_text(loaded.task, sample), sample) == 1.0 for r in loaded.rewards)
    assert loaded.graders.grade(STRICT, "\\boxed{0.5}", sample) == 1.0
    assert not notes(loaded)


@pytest.mark.parametrize(
    ("prompt", "note"),
    [
        ("{question} Be brief.", "options.prompt does not ask for <answer>…</answer>, in which count reads"),
        ("Count! <answer></answer>", "options.prompt has no {question}: the questions of the table are not"),
    ],
)  # fmt: skip
def test_a_prompt_that_cannot_earn_a_reward_is_noted(
    prompt: str, note: str, tmp_path: Path
) -> None:
    loaded = load(write_table(tmp_path, rows([1])), answer="count", prompt=prompt)
    assert [line for line in notes(loaded) if line.startswith(note)]
