"""Puts a reward to every probe in a worker, so that one that hangs or crashes is only a finding. No torch."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vlrft.schema import DataError
from vlrft.schema.errors import WorkerTimeout
from vlrft.scoring.calls import Answer, found_again, once
from vlrft.scoring.probing.probes import Golds, Probe, probes
from vlrft.scoring.rewards import WeightedReward, checked
from vlrft.workers.worker import Worker

REPEATS = 3
PATIENCE = 1  # calls that run over their time before a probe is left out for the other samples
LATE = 20  # … and before the reward is given up


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one completion earned."""

    probe: Probe
    sample: str
    number: int
    score: float | None = None  # the sum of its parts that apply
    error: str | None = None  # in place of a score
    seconds: float = 0.0
    changed: bool = False  # the sample was not the same after the call

    @property
    def failed(self) -> bool:
        return self.error is not None


@dataclass(kw_only=True)
class Probed:
    """Everything that was seen of one reward."""

    reward: WeightedReward
    samples: int
    seen: list[Seen] = field(default_factory=list[Seen])
    outputs: list[Seen] = field(default_factory=list[Seen])  # stored ones
    unstable: list[str] = field(
        default_factory=list[str]
    )  # samples whose gold score is not always the same
    placed: list[str] = field(
        default_factory=list[str]
    )  # samples whose gold score depends on its place
    unread: list[str] = field(default_factory=list[str])  # unreadable gold answers: what was said

    def of(self, name: str) -> list[Seen]:
        """What one probe earned where the reward applies."""
        golds = self.golds
        return [s for s in self.seen if s.probe.name == name and s.number in golds]

    @property
    def golds(self) -> dict[int, float]:
        """The gold completion's score of each sample that the reward applies to."""
        return {
            s.number: s.score for s in self.seen if s.probe.kind == "gold" and s.score is not None
        }


def observe(reference: str, strings: bool, answers: Sequence[Answer]) -> tuple[Any, float, bool]:
    """One call in a worker: the outcome, its seconds, and whether it changed the sample."""
    function, form = found_again(reference, strings)
    before = pickle.dumps([a.sample for a in answers])
    start = time.perf_counter()
    found = once(function, form, answers)
    seconds = time.perf_counter() - start
    return found, seconds, pickle.dumps([a.sample for a in answers]) != before


class Prober:
    """Asks one reward about the samples of a task."""

    def __init__(self, reward: WeightedReward, golds: Golds, seconds: float) -> None:
        self.reward = replace(reward, on_error="zero")
        self.golds = golds
        self.seconds = seconds
        self.worker = Worker()

    def run(self, outputs: Sequence[tuple[int, str]] = ()) -> Probed:
        """All probes on all samples, and stored outputs: (sample's number, text)."""
        found = Probed(reward=self.reward, samples=len(self.golds.samples))
        late: Counter[str] = Counter()
        try:
            for number in range(found.samples):
                self._sample(number, found, late)
            for number, text in outputs:
                stored = Probe(name="a stored output", kind="loose", text=text)
                found.outputs.append(self.ask(number, stored))
            self._again(found)
        finally:
            self.worker.close()
        return found

    def _sample(self, number: int, found: Probed, late: Counter[str]) -> None:
        for probe in probes(self.golds, number):
            if late[probe.name] >= PATIENCE or late.total() >= LATE:
                continue
            try:
                seen = self.ask(number, probe)
            except DataError as e:
                found.unread.append(str(e))
                return
            found.seen.append(seen)
            late[probe.name] += bool(seen.error and "was killed" in seen.error)
            if probe.kind == "gold" and seen.score is None and not seen.failed:
                return  # it does not apply to this sample

    def _again(self, found: Probed) -> None:
        """Gold completions once more: repeated, in another order and process, and at another place of their list."""
        self.worker.close()  # another process has another hash seed
        for number, before in reversed(found.golds.items()):
            gold = Probe(name="again", kind="gold", text=self.golds.texts[number])
            again = [self.ask(number, gold).score for _ in range(REPEATS)]
            name = self.golds.samples[number].id
            if any(score != before for score in again):
                found.unstable.append(name)
            elif self.reward.form.scope != "rollout" and self.ask(number, gold, 2).score != before:
                found.placed.append(name)

    def ask(self, number: int, probe: Probe, place: int = 0) -> Seen:
        """What a completion earns. Where the reward sees several, it stands at this place among the gold completion and
        another sample's. Raises DataError for an unreadable gold answer."""
        sample = self.golds.samples[number]
        texts = [probe.text]
        if self.reward.form.scope != "rollout":
            texts = [self.golds.texts[number], self.golds.other(number) or ""]
            texts.insert(place, probe.text)
        answers = [Answer(text, sample, tuple(text.encode())) for text in texts]
        outcome, seconds, changed = None, 0.0, False
        reference, strings = self.reward.reference, self.reward.form.strings
        assert reference is not None
        try:
            outcome, seconds, changed = self.worker.call(
                observe, reference, strings, answers, seconds=self.seconds, loads=[reference]
            )
        except WorkerTimeout as e:
            outcome, seconds = e, self.seconds
        except Exception as e:
            outcome = e
        parts, error = checked(self.reward, answers, outcome)[place]
        known = [value for value in parts.values() if value is not None]
        return Seen(
            probe=replace(probe, text=""),  # a hundred kilobytes each
            sample=sample.id,
            number=number,
            score=sum(known) if known and error is None else None,
            error=error,
            seconds=seconds,
            changed=changed,
        )
