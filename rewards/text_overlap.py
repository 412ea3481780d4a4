"""A free text, by the words it shares with the gold ones."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from vlrft.grading import MAX_ANSWER, expects, read_answer
from vlrft.schema import DataError, Sample

__all__ = ["text_overlap"]

# What is no part of a word before and behind it; signs (-5, .5, $5, 5%) are.
_BEFORE = "\"'([{“‘«„¿¡（「"
_BEHIND = "\"')]}”’».,;:!?…。，、；：！？）」"


def text_overlap(completion: str, sample: Sample) -> dict[str, float] | None:
    """`bleu` and `f1`, each in [0, 1], of the text in the answer tag against the gold text, or a list
    of them; None when the gold answer is no text (tag `answer`: text).

    `bleu` is sacrebleu's of a sentence (13a tokens, case counts, exponential smoothing, n-grams up
    to the order that the text has), against all gold texts at once. `f1` is that of SQuAD, the best
    over the gold texts: the harmonic mean of precision and recall of the words, each as often as it
    occurs. Unlike SQuAD's, its words are what stands between white space, without case and the
    punctuation around them, articles included. Both are too coarse for scripts without spaces.

    Both 0.0 for no answer, several, or one too long to read; otherwise 0.0 for no token and for no
    word in common (a full stop is a token). Overlap is not truth: "not" weighs as much as "the".
    Raises DataError for a gold answer that is not text or a list of texts, each with a word and at
    most as long as an answer may be; ImportError without sacrebleu. Sources: Papineni et al. 2002,
    Post 2018 (arXiv 1804.08771); Rajpurkar et al. 2016 (arXiv 1606.05250).
    """
    if not expects(sample, "text"):
        return None
    golds = _golds(sample)
    library = _sacrebleu()
    answer = read_answer(completion)
    if answer is None:
        return {"bleu": 0.0, "f1": 0.0}
    bleu = library.sentence_bleu(answer, golds, use_effective_order=True).score / 100
    words = Counter(_words(answer))
    return {
        "bleu": min(float(bleu), 1.0),  # a perfect one comes out a rounding error above
        "f1": max(_f1(words, Counter(_words(gold))) for gold in golds),
    }


def _f1(said: Counter[str], gold: Counter[str]) -> float:
    """2 · shared / (said + gold), which is the harmonic mean of precision and recall."""
    return 2 * (said & gold).total() / (said.total() + gold.total())


def _words(text: str) -> list[str]:
    parts = (part.lstrip(_BEFORE).rstrip(_BEHIND) for part in text.casefold().split())
    return [part for part in parts if part]


def _golds(sample: Sample) -> list[str]:
    given: Any = sample.answer
    several = isinstance(given, Sequence) and not isinstance(given, str)
    golds: list[Any] = list(given) if several else [given]
    if not golds or not all(isinstance(gold, str) and _is_gold(gold) for gold in golds):
        raise DataError(
            f"sample {sample.id}: gold answer {repr(given)[:200]} is no text or list of texts; "
            f"each needs a word and at most {MAX_ANSWER} characters"
        )
    return golds


def _is_gold(text: str) -> bool:
    return len(text) <= MAX_ANSWER and bool(_words(text))


def _sacrebleu() -> Any:
    try:
        return importlib.import_module("sacrebleu")
    except ImportError as e:
        raise ImportError(f"text_overlap needs sacrebleu: pip install 'vlrft[text]' ({e})") from e
