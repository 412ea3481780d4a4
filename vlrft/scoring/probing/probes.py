"""Completions that distinguish a sound reward from one that can be gamed, made from a task's gold answers. No torch.

Kinds of probes: `empty` ones contain no answer, `wrong` ones are well formed and wrong, `loose` ones contain the right
answer in another form than the gold completion, `odd` ones are texts that break parsers.
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
LONG = 100_000  # characters of a very long completion
MAX_LIST = 20_000  # characters that a list of answers may take
CONSTANTS = 3  # answers, and words of answers, that are tried as constants
CHARACTERS = ascii_lowercase + digits + 6 * " "


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One completion for one sample."""

    name: str  # in a report: "an empty answer"
    kind: Kind
    text: str
    fair: bool = False  # a constant that happens to be this sample's answer


@dataclass(frozen=True, kw_only=True)
class GoldCompletions:
    """The gold completions of some samples, and the answers in them."""

    samples: Sequence[Sample]
    texts: Sequence[str]  # a gold completion for each sample
    answers: Sequence[str]  # the answer in each of them

    @cached_property
    def distinct(self) -> list[str]:
        """The different answers, the most frequent first."""
        return [answer for answer, _ in Counter(self.answers).most_common()]

    @cached_property
    def constants(self) -> list[str]:
        """Constant answers that a policy might give without looking at the sample."""
        words = Counter(w for a in self.answers for w in {*a.split()} if w != a)
        frequent = [word for word, n in words.most_common(CONSTANTS) if n > 1]
        return [*self.distinct[:CONSTANTS], *(w for w in frequent if w not in self.distinct)]

    @cached_property
    def all_in_one(self) -> str:
        """All answers in one line."""
        line = ", ".join(self.distinct)
        return line[:MAX_LIST].rpartition(", ")[0] if len(line) > MAX_LIST else line

    def with_answer(self, number: int, answer: str) -> str:
        """The gold completion of a sample with another answer in place of its own."""
        head, _, tail = self.texts[number].rpartition(self.answers[number])
        return f"{head}{answer}{tail}"

    def other(self, number: int) -> str | None:
        """The gold completion of the next sample of the same kind that has a different answer."""
        count, kind = len(self.samples), _kind(self.samples[number].tags)
        for step in range(1, count):
            k = (number + step) % count
            if self.answers[k] != self.answers[number] and _kind(self.samples[k].tags) == kind:
                return self.texts[k]
        return None


def make_probes(golden: GoldCompletions, number: int) -> list[Probe]:
    """All probes of one sample, the gold completion first."""
    gold, answer, sample = golden.texts[number], golden.answers[number], golden.samples[number]
    question = " ".join(p for m in sample.messages for p in m.content if isinstance(p, str))

    def answering(text: str) -> str:
        return golden.with_answer(number, text)

    texts = [
        ("the gold completion", "gold", gold),
        ("an empty answer", "empty", ""),
        ("white space", "empty", " \n\t\n "),
        ("an empty answer tag", "empty", answering("")),
        ("the prompt repeated", "empty", question),
        ("random text", "empty", _random_text(sample.id, 200)),
        ("100 kB of random text", "empty", _random_text(sample.id, 200) * (LONG // 200)),
        ("the prompt as the answer", "wrong", answering(question)),
        ("random text as the answer", "wrong", answering(_random_text(sample.id, 20))),
        ("every answer of the split in one", "wrong", answering(golden.all_in_one)),
        ("a unicode answer", "odd", answering("７٣½²∞\u202e‮é̂👍🏽\u0000")),
        ("an answer of 5,000 digits", "odd", answering("9" * 5000)),
        ("an answer of 5,000 brackets", "odd", answering("(" * 5000)),
        ("the answer 'nan'", "odd", answering("nan")),
        ("the answer '1e999'", "odd", answering("1e999")),
        ("an unclosed LaTeX answer", "odd", answering(r"\frac{1}{\sqrt{\left(")),
        ("100 kB of one letter", "odd", "a" * LONG),
        ("100 kB of white space in the answer", "odd", answering(" " * LONG)),
        ("the gold completion, then 100 kB of words", "loose", gold + " and" * (LONG // 4)),
        ("100 kB of words, then the gold completion", "loose", "and " * (LONG // 4) + gold),
        ("the gold completion twice", "loose", f"{gold}\n{gold}"),
        ("the gold completion cut before its end", "loose", _cut_end(gold, answer)),
        ("the right answer without its form", "loose", answer),
    ]
    probes = [Probe(name=name, kind=kind, text=text) for name, kind, text in texts]  # type: ignore[arg-type]
    probes += [
        Probe(
            name=f"the constant answer {text!r}",
            kind="wrong",
            text=answering(text),
            fair=_same(text, answer),
        )
        for text in golden.constants
    ]
    other = golden.other(number)
    if other is not None:
        wrong = golden.answers[golden.texts.index(other)]
        two = answering(f"{answer} or {wrong}")
        probes += [
            Probe(name=OTHER, kind="wrong", text=other),
            Probe(name="the right answer or a wrong one, in one", kind="wrong", text=two),
            Probe(name=RIGHT_FIRST, kind="loose", text=f"{gold}\n{other}"),
            Probe(name=RIGHT_LAST, kind="loose", text=f"{other}\n{gold}"),
        ]
    if len(answer) >= 4 and answer.isascii() and answer.replace(" ", "").isalpha():
        half = answering(answer[: len(answer) // 2])
        probes.append(Probe(name="half of the right answer", kind="wrong", text=half))
    bare = gold == answer  # then there is no form to omit and no tag to leave empty
    repeated = {"an empty answer tag", "the right answer without its form"} if bare else set[str]()
    return [p for p in probes if p.name not in repeated]


OTHER = "another sample's gold completion"
RIGHT_FIRST = "the gold completion, then a wrong one"
RIGHT_LAST = "a wrong completion, then the gold one"


def _random_text(seed: str, characters: int) -> str:
    return "".join(random.Random(seed).choices(CHARACTERS, k=characters))


def _cut_end(gold: str, answer: str) -> str:
    """The completion without the text after its answer, or without its last character if it ends with the answer."""
    head, _, tail = gold.rpartition(answer)
    return head + answer if tail else gold[:-1]


def _same(one: str, other: str) -> bool:
    return one.casefold().strip() == other.casefold().strip()


def _kind(tags: Mapping[str, str]) -> tuple[str | None, str | None]:
    return tags.get("kind"), tags.get("answer")
