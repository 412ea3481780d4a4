"""Completions that tell a sound reward from one that can be gamed, made from a task's gold answers. No torch.

`empty` ones say nothing, `wrong` ones are well formed and wrong, `loose` ones hold the right answer in another form than
the gold completion, `odd` ones are texts that break parsers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase, digits
from typing import Literal

from vlrft.schema import Sample

Kind = Literal["gold", "empty", "wrong", "loose", "odd"]
FILLER = 100_000  # characters of a very long completion
LISTED = 20_000  # characters that a list of answers may take
CONSTANTS = 3  # answers, and words of answers, that are tried as constants
SIGNS = ascii_lowercase + digits + 6 * " "


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One completion for one sample."""

    name: str  # how a report calls it: "an empty answer"
    kind: Kind
    text: str
    fair: bool = False  # a constant that happens to be this sample's answer


@dataclass(frozen=True, kw_only=True)
class Golds:
    """The gold completions of some samples, and the answers in them."""

    samples: Sequence[Sample]
    texts: Sequence[str]  # a gold completion a sample
    answers: Sequence[str]  # what each of them answers

    @cached_property
    def distinct(self) -> list[str]:
        """The answers, the most frequent first."""
        return [answer for answer, _ in Counter(self.answers).most_common()]

    @cached_property
    def constants(self) -> list[str]:
        """What somebody who sees no image would always say."""
        words = Counter(w for a in self.answers for w in {*a.split()} if w != a)
        frequent = [word for word, n in words.most_common(CONSTANTS) if n > 1]
        return [*self.distinct[:CONSTANTS], *(w for w in frequent if w not in self.distinct)]

    @cached_property
    def everything(self) -> str:
        """All answers in one line."""
        listed = ", ".join(self.distinct)
        return listed[:LISTED].rpartition(", ")[0] if len(listed) > LISTED else listed

    def wrapped(self, number: int, answer: str) -> str:
        """The gold completion with another answer in its place."""
        head, _, tail = self.texts[number].rpartition(self.answers[number])
        return f"{head}{answer}{tail}"

    def other(self, number: int) -> str | None:
        """The gold completion of the nearest sample after this one, of its kind, that has another answer."""
        count, own = len(self.samples), self.samples[number].tags
        for step in range(1, count):
            k = (number + step) % count
            if self.answers[k] != self.answers[number] and _kind(self.samples[k].tags) == _kind(
                own
            ):
                return self.texts[k]
        return None


def probes(golds: Golds, number: int) -> list[Probe]:
    """Everything that one sample is asked, the gold completion first."""
    gold, answer, sample = golds.texts[number], golds.answers[number], golds.samples[number]
    question = " ".join(p for m in sample.messages for p in m.content if isinstance(p, str))
    made = [
        ("the gold completion", "gold", gold),
        ("an empty answer", "empty", ""),
        ("white space", "empty", " \n\t\n "),
        ("an empty answer tag", "empty", golds.wrapped(number, "")),
        ("the prompt repeated", "empty", question),
        ("random text", "empty", _random(sample.id, 200)),
        ("100 kB of random text", "empty", _random(sample.id, 200) * (FILLER // 200)),
        ("the prompt as the answer", "wrong", golds.wrapped(number, question)),
        ("random text as the answer", "wrong", golds.wrapped(number, _random(sample.id, 20))),
        ("every answer of the split in one", "wrong", golds.wrapped(number, golds.everything)),
        ("a unicode answer", "odd", golds.wrapped(number, "７٣½²∞\u202e‮é̂👍🏽\u0000")),
        ("an answer of 5,000 digits", "odd", golds.wrapped(number, "9" * 5000)),
        ("an answer of 5,000 brackets", "odd", golds.wrapped(number, "(" * 5000)),
        ("the answer 'nan'", "odd", golds.wrapped(number, "nan")),
        ("the answer '1e999'", "odd", golds.wrapped(number, "1e999")),
        ("an unclosed LaTeX answer", "odd", golds.wrapped(number, r"\frac{1}{\sqrt{\left(")),
        ("100 kB of one letter", "odd", "a" * FILLER),
        ("100 kB of white space in the answer", "odd", golds.wrapped(number, " " * FILLER)),
        ("the gold completion, then 100 kB of words", "loose", gold + " and" * (FILLER // 4)),
        ("100 kB of words, then the gold completion", "loose", "and " * (FILLER // 4) + gold),
        ("the gold completion twice", "loose", f"{gold}\n{gold}"),
        ("the gold completion cut before its end", "loose", _cut(gold, answer)),
        ("the right answer without its form", "loose", answer),
    ]
    found = [Probe(name=name, kind=kind, text=text) for name, kind, text in made]  # type: ignore[arg-type]
    found += [
        Probe(
            name=f"the constant answer {text!r}",
            kind="wrong",
            text=golds.wrapped(number, text),
            fair=_same(text, answer),
        )
        for text in golds.constants
    ]
    other = golds.other(number)
    if other is not None:
        wrong = golds.answers[golds.texts.index(other)]
        two = golds.wrapped(number, f"{answer} or {wrong}")
        found += [
            Probe(name=OTHER, kind="wrong", text=other),
            Probe(name="the right answer or a wrong one, in one", kind="wrong", text=two),
            Probe(name=RIGHT_FIRST, kind="loose", text=f"{gold}\n{other}"),
            Probe(name=RIGHT_LAST, kind="loose", text=f"{other}\n{gold}"),
        ]
    if len(answer) >= 4 and answer.isascii() and answer.replace(" ", "").isalpha():
        half = golds.wrapped(number, answer[: len(answer) // 2])
        found.append(Probe(name="half of the right answer", kind="wrong", text=half))
    bare = gold == answer  # then there is no form to lose and no tag to be empty
    same = {"an empty answer tag", "the right answer without its form"} if bare else set[str]()
    return [p for p in found if p.name not in same]


OTHER = "another sample's gold completion"
RIGHT_FIRST = "the gold completion, then a wrong one"
RIGHT_LAST = "a wrong completion, then the gold one"


def _random(seed: str, signs: int) -> str:
    return "".join(random.Random(seed).choices(SIGNS, k=signs))


def _cut(gold: str, answer: str) -> str:
    """Without what closes the answer; without its last character where nothing does."""
    head, _, tail = gold.rpartition(answer)
    return head + answer if tail else gold[:-1]


def _same(one: str, other: str) -> bool:
    return one.casefold().strip() == other.casefold().strip()


def _kind(tags: Mapping[str, str]) -> tuple[str | None, str | None]:
    return tags.get("kind"), tags.get("answer")
