"""Answer -> scores of `text_overlap`."""

from __future__ import annotations

import math
import sys

import pytest
from vlrft.rewards.text_overlap import text_overlap

from vlrft.grading import MAX_ANSWER
from vlrft.schema import DataError
from vlrft.testing.small_policies import sample

pytest.importorskip("sacrebleu")

CAT = "The cat sat on the mat."
NOTHING = {"bleu": 0.0, "f1": 0.0}


def scores(answer: str, gold: object = CAT) -> dict[str, float]:
    result = text_overlap(f"<answer>{answer}</answer>", sample("cat", gold, answer="text"))
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("answer", "f1"),
    [
        ("The cat sat on the mat.", 1.0),
        ("the CAT sat on\nthe  mat", 1.0),
        ("mat the on sat cat the", 1.0),
        ("“The cat” (sat), on: the 'mat'!", 1.0),
        ("the cat", 2 * 2 / 8),
        ("cat", 2 * 1 / 7),
        ("the the the the", 2 * 2 / 10),  # no word more often than the gold text has it
        ("The cat sat on the mat. The dog ran off.", 2 * 6 / 16),
        ("a dog ran", 0.0),
        ("...", 0.0),
        ("- - -", 0.0),
        ("thecatsatonthemat", 0.0),
    ],
)
def test_f1_of_the_words(answer: str, f1: float) -> None:
    assert scores(answer)["f1"] == pytest.approx(f1, rel=1e-12)


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        ("5", "-5", 0.0),
        ("5", ".5", 0.0),
        ("5.", "5", 1.0),
        ("$5", "5%", 0.0),
        ("3.5", "35", 0.0),
        ("STRASSE", "Straße", 1.0),
        ("it's", "it’s", 0.0),
        ("¿Qué?", "qué", 1.0),
    ],
)
def test_the_words_of_a_text(answer: str, gold: str, same: float) -> None:
    assert scores(answer, gold)["f1"] == same


@pytest.mark.parametrize(
    ("answer", "bleu"),
    [
        ("The cat sat on the mat.", 1.0),
        ("The cat sat", math.exp(1 - 7 / 3)),  # no n-gram wrong, too short
        ("The cat", math.exp(1 - 7 / 2)),
        ("xyz", 0.0),
        (".", math.exp(1 - 7)),  # a mark is a token
        # 6/7 words, 5/6 pairs, 4/5 triples, 3/4 quadruples
        ("A cat sat on the mat.", (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25),
    ],
)
def test_bleu_of_the_text(answer: str, bleu: float) -> None:
    assert scores(answer)["bleu"] == pytest.approx(bleu, rel=1e-9)


def test_the_best_of_several_gold_texts_counts() -> None:
    gold_answers = ["A dog.", CAT]
    assert scores("the cat sat on the mat", gold_answers)["f1"] == 1.0
    assert scores("a dog", gold_answers)["f1"] == 1.0
    assert scores(CAT, gold_answers) == {"bleu": 1.0, "f1": 1.0}
    assert scores("A dog.", tuple(gold_answers)) == {"bleu": 1.0, "f1": 1.0}


@pytest.mark.parametrize(
    "completion",
    [
        "",
        CAT,
        f"<answer>{CAT}",
        "<answer></answer>",
        f"<think><answer>{CAT}</answer></think>",
        f"<answer>{CAT}</answer><answer>{CAT}</answer>",
        "<answer>" + "the cat " * 12_500 + "</answer>",
        "<answer>" + "[" * MAX_ANSWER + "</answer>",
        "<answer>10**10**10</answer>",
        "<answer>" + "\ud800\x00\u202e" * 600 + "</answer>",
        "<answer>" * 20_000,
        "the cat " * 12_500,
    ],
)
def test_missing_and_hostile_answers_earn_nothing(completion: str) -> None:
    assert text_overlap(completion, sample("cat", CAT)) == NOTHING


@pytest.mark.parametrize("text", ["a " * 1000, "a" * 2000, "1." * 1000, "\u202ea" * 1000])
def test_scores_of_the_longest_texts_are_at_most_1(text: str) -> None:
    assert scores(text, text.strip()) == {"bleu": 1.0, "f1": 1.0}


def test_other_kinds_of_gold_answers_do_not_apply() -> None:
    assert text_overlap("<answer>A</answer>", sample("letter", "A", answer="choice")) is None


@pytest.mark.parametrize(
    "gold",
    [None, "", " ", "...", 3, True, [], ["fine", ""], ["fine", 3], "a" * (MAX_ANSWER + 1)],
)
def test_an_unreadable_gold_answer_raises(gold: object) -> None:
    with pytest.raises(DataError, match=r"sample gold: gold answer .* at most 2000") as caught:
        text_overlap("<answer>a</answer>", sample("gold", gold))
    assert len(str(caught.value)) < 400


def test_without_sacrebleu_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r"pip install 'vlrft\[text\]'") as caught:
        text_overlap("no answer", sample("cat", CAT))
    assert "\n" not in str(caught.value)
