"""A letter with an accent is one answer, whether it is one sign or two: file systems of a Mac, and so the names of folders, have two."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from vlrft.rewards.choice import choice
from vlrft.rewards.classname import classname
from vlrft.rewards.jaccard import jaccard
from vlrft.rewards.math_answer import math_answer
from vlrft.rewards.text_overlap import f1

from vlrft.schema import Sample
from vlrft.testing.small_policies import sample

REWARDS: dict[str, tuple[Callable[[str, Sample], float | None], dict[str, str], str]] = {
    "an option": (choice, {"answer": "choice", "options": "café\n한식"}, "café"),
    "an option beside one in capitals": (choice, {"answer": "choice", "options": "café\nCAFÉ"}, "café"),
    "a class": (classname, {"answer": "choice"}, "phở bò"),
    "a class in Hangul": (classname, {"answer": "choice"}, "골든 리트리버"),
    "labels": (jaccard, {"answer": "labels"}, "é; ü"),
    "a text": (f1, {"answer": "text"}, "der Hund läuft"),
    "a word": (math_answer, {"answer": "math"}, "Zoë"),
}  # fmt: skip


@pytest.mark.parametrize("case", REWARDS)
def test_accents_count_alike_in_both_forms(case: str) -> None:
    reward, tags, text = REWARDS[case]
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    assert forms[0] != forms[1]
    tags = {k: unicodedata.normalize("NFC", v) for k, v in tags.items()}
    for gold in forms:
        options = {k: v.replace(forms[0], gold) for k, v in tags.items()}
        for answer in forms:
            assert reward(f"<answer>{answer}</answer>", sample("s", gold, **options)) == 1.0
    bare = "".join(c for c in forms[1] if not unicodedata.combining(c))
    if bare != forms[1]:
        assert reward(f"<answer>{bare}</answer>", sample("s", forms[0], **tags)) != 1.0
