"""A free text, by the words that it shares with the gold texts."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from vlrft.grading import MAX_ANSWER, expects, normalise_text, read_answer
from vlrft.schema import DataError, Sample

__all__ = ["f1", "text_overlap"]

# Punctuation that is removed before and after a word; signs (-5, .5, $5, 5%) are part of it.
_BEFORE = "\"'([{“‘«„¿¡（「"
_AFTER = "\"')]}”’».,;:!?…。，、；：！？）」"


def text_overlap(completion: str, sample: Sample) -> dict[str, float] | None:
    """`bleu` and `f1`, each in [0, 1], of the text in the answer tag against the gold text or a list of gold texts;
    None when the gold answer is not text (tag `answer`: text).

    `bleu` is sacrebleu's for a sentence (13a tokens, case-sensitive, exponential smoothing, n-grams up to the order
    that the text has), against all gold texts at once. `f1` is that of SQuAD, the best over the gold texts: the
    harmonic mean of precision and recall of the words, each counted as often as it occurs. Unlike SQuAD's, its words
    are the parts between white space, without case and the punctuation around them, articles included. Both are too
    coarse for scripts without spaces.

    Both are 0.0 for no answer, several, or one too long to read; otherwise `bleu` is 0.0 without a common token and
    `f1` without a common word (a full stop is a token). Overlap is not truth: "not" weighs as much as "the". Raises
    DataError for a gold answer that is not text or a list of texts, each with a word and at most as long as an answer
    may be; ImportError without sacrebleu. Sources: Papineni et al. 2002, Post 2018 (arXiv 1804.08771); Rajpurkar et
    al. 2016 (arXiv 1606.05250).
    """
    if not expects(sample, "text"):
        return None
    gold_texts = _gold_texts(sample)
    library = _sacrebleu()
    answer = read_answer(completion)
    if answer is None:
        return {"bleu": 0.0, "f1": 0.0}
    bleu = library.sentence_bleu(answer, gold_texts, use_effective_order=True).score / 100
    words = Counter(_words(answer))
    return {
        "bleu": min(float(bleu), 1.0),  # a perfect score is above 1 by a rounding error
        "f1": max(_f1(words, Counter(_words(gold))) for gold in gold_texts),
    }


def f1(completion: str, sample: Sample) -> float | None:
    """The `f1` of `text_overlap` alone, which needs no other package and can be a grader. Raises DataError as it does."""
    if not expects(sample, "text"):
        return None
    gold_texts = _gold_texts(sample)
    words = Counter(_words(read_answer(completion) or ""))
    return max(_f1(words, Counter(_words(gold))) for gold in gold_texts)


def _f1(answer: Counter[str], gold: Counter[str]) -> float:
    """2 · shared / (answer + gold), which is the harmonic mean of precision and recall."""
    return 2 * (answer & gold).total() / (answer.total() + gold.total())


def _words(text: str) -> list[str]:
    parts = (part.lstrip(_BEFORE).rstrip(_AFTER) for part in normalise_text(text).split())
    return [part for part in parts if part]


def _gold_texts(sample: Sample) -> list[str]:
    gold: Any = sample.answer
    several = isinstance(gold, Sequence) and not isinstance(gold, str)
    texts: list[Any] = list(gold) if several else [gold]
    if not texts or not all(isinstance(text, str) and _is_gradable(text) for text in texts):
        raise DataError(
            f"sample {sample.id}: gold answer {repr(gold)[:200]} is not a text or a list of texts; "
            f"each needs a word and at most {MAX_ANSWER} characters"
        )
    return texts


def _is_gradable(text: str) -> bool:
    return len(text) <= MAX_ANSWER and bool(_words(text))


def _sacrebleu() -> Any:
    try:
        return importlib.import_module("sacrebleu")
    except ImportError as e:
        raise ImportError(f"text_overlap needs sacrebleu: pip install 'vlrft[text]' ({e})") from e
