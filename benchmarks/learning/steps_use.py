"""Whether a policy uses the steps that it writes: its greedy answers after its own steps, without steps, and after changed ones.

Without steps the opening is `<think></think><answer>`: after `<answer>` alone a policy may write its steps all the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from vlrft import load_policy
from vlrft.config import RolloutConfig, TaskConfig
from vlrft.grading import read_answer
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling, running_engine
from vlrft.rollout.task import load_task
from vlrft.schema import Sample

STEPS = re.compile(r"<think>(.*?)</think><answer>", re.DOTALL)
LAST_STEP = re.compile(r"(.*=\d)\*\d=\d")
FIRST_PRODUCT = re.compile(r"(\d\*\d=)(\d)(?=\*)")


@dataclass(frozen=True, kw_only=True)
class Written:
    """The policy's own answer to a scene."""

    sample: Sample
    steps: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The text that the policy continues, to the scene of `own`."""

    own: Written
    text: str
    expected: str | None = None  # the answer of a policy that reads the steps; None: not defined


@dataclass(frozen=True, kw_only=True)
class Use:
    """Answers to openings of one kind, as shares."""

    n: int
    right: float  # the answer to the picture
    same: float  # as the policy answered by itself
    expected: float | None


def shuffle_digits(steps: str, rng: random.Random) -> str:
    """The steps with their digits in another order, where they have different ones."""
    digits = [c for c in steps if c.isdigit()]
    shuffled = list(digits)
    while shuffled == digits and len(set(digits)) > 1:
        rng.shuffle(shuffled)
    rest = iter(shuffled)
    return "".join(next(rest) if c.isdigit() else c for c in steps)


def drop_last_step(steps: str) -> str | None:
    """The steps but the last; None where only one was written."""
    match = LAST_STEP.fullmatch(steps)
    return None if match is None else match[1]


def triple(digit: str) -> str:
    """The last digit of three times as much."""
    return str(3 * int(digit) % 10)


def triple_first_product(steps: str) -> str | None:
    """The steps up to their first product, which is made three times as much; None where they end there or it stays the same."""
    match = FIRST_PRODUCT.match(steps)
    if match is None or triple(match[2]) == match[2]:
        return None
    return match[1] + triple(match[2])


def make_openings(written: Sequence[Written]) -> Mapping[str, list[Opening]]:
    """Change of the steps -> the openings; those of another scene are of the next one with another answer."""
    rng = random.Random("shuffled digits")
    kinds: dict[str, list[Opening]] = {
        "kept": [],
        "removed": [],
        "last one removed": [],
        "of another scene": [],
        "digits shuffled": [],
        "first product times three": [],
    }
    for k, own in enumerate(written):
        kinds["kept"].append(Opening(own=own, text=_close(own.steps), expected=own.answer))
        kinds["removed"].append(Opening(own=own, text=_close("")))
        if (cut := drop_last_step(own.steps)) is not None:
            before = cut.rpartition("=")[2]
            kinds["last one removed"].append(Opening(own=own, text=_close(cut), expected=before))
        others = (w for w in [*written[k + 1 :], *written[:k]] if w.answer != own.answer)
        if (other := next(others, None)) is not None:
            text = _close(other.steps)
            kinds["of another scene"].append(Opening(own=own, text=text, expected=other.answer))
        shuffled = shuffle_digits(own.steps, rng)
        last = re.findall(r"\d+", shuffled)[-1:]
        kinds["digits shuffled"].append(
            Opening(own=own, text=_close(shuffled), expected=str(int(last[0])) if last else None)
        )
        if (tripled := triple_first_product(own.steps)) is not None and own.answer.isdigit():
            kinds["first product times three"].append(
                Opening(own=own, text=f"<think>{tripled}", expected=triple(own.answer))
            )
    return kinds


def _close(steps: str) -> str:
    return f"<think>{steps}</think><answer>"


def complete(policy: Policy, pairs: Iterable[tuple[Sample, str]], max_tokens: int) -> list[str]:
    """The greedy completion of each sample that begins with a text, with that text."""
    pairs, requests = list(pairs), list[Request]()
    for sample, text in pairs:
        prompt = policy.chat.render(sample.messages, sample.images, name=sample.id)
        ids = (*prompt.ids, *policy.chat.answer_ids(text)[:-1])  # without the end of the turn
        requests.append(Request(id=sample.id, prompt=replace(prompt, ids=ids), seeds=(0,)))
    rollout = RolloutConfig(max_tokens=max_tokens)
    sampling = replace(Sampling.of(rollout), temperature=0.0)
    with running_engine(rollout, policy) as engine, policy.float32_products():
        pieces = engine.generate(requests, sampling)
    return [text + piece.text for (_, text), (piece,) in zip(pairs, pieces, strict=True)]


def measure_use(
    model: Path, task: TaskConfig, split: str, limit: int, max_tokens: int
) -> dict[str, Use]:
    """Change of the steps -> the answers after it, on the scenes to which the policy writes steps and an answer by itself."""
    policy = load_policy(model)
    scenes = load_task(task, split).head(limit)
    texts = complete(policy, ((scene, "") for scene in scenes), max_tokens)
    written = [
        Written(sample=scene, steps=match[1], answer=answer)
        for scene, text in zip(scenes, texts, strict=True)
        if (match := STEPS.match(text)) and (answer := read_answer(text)) is not None
    ]
    return {
        kind: _grade(
            openings, complete(policy, ((o.own.sample, o.text) for o in openings), max_tokens)
        )
        for kind, openings in make_openings(written).items()
        if openings
    }


def _grade(openings: Sequence[Opening], texts: Sequence[str]) -> Use:
    answers = [read_answer(text) for text in texts]
    pairs = list(zip(openings, answers, strict=True))
    expected = [float(answer == o.expected) for o, answer in pairs if o.expected is not None]
    return Use(
        n=len(pairs),
        right=fmean(answer == str(o.own.sample.answer) for o, answer in pairs),
        same=fmean(answer == o.own.answer for o, answer in pairs),
        expected=fmean(expected) if expected else None,
    )
