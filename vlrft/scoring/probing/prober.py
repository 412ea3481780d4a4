"""Runs a reward on every probe in a worker, so that a reward that hangs or crashes is only a result. No torch."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vlrft.schema import DataError
from vlrft.schema.errors import WorkerTimeout
from vlrft.scoring.calls import call_and_wait, load_reward
from vlrft.scoring.probing.probes import GoldCompletions, Probe, make_probes
from vlrft.scoring.reward_input import RewardInput
from vlrft.scoring.weighted import WeightedReward, check_outcome
from vlrft.workers.worker import Worker

REPEATS = 3
MAX_TIMEOUTS_PER_PROBE = 1  # after which a probe is left out for the other samples
MAX_TIMEOUTS = 20  # after which no further probe is run


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The score of one completion, or the error in place of it."""

    probe: Probe
    sample: str  # its id
    number: int  # of the sample
    score: float | None = None  # the sum of its parts that apply
    error: str | None = None
    seconds: float = 0.0
    changed: bool = False  # the call modified the sample

    @property
    def failed(self) -> bool:
        return self.error is not None


@dataclass(kw_only=True)
class ProbeResults:
    """All results of one reward."""

    reward: WeightedReward
    samples: int
    results: list[ProbeResult] = field(default_factory=list[ProbeResult])
    stored: list[ProbeResult] = field(default_factory=list[ProbeResult])  # of stored outputs
    unstable: list[str] = field(default_factory=list[str])
    """Ids of samples whose gold completion scores differently in a repeated call."""
    position_dependent: list[str] = field(default_factory=list[str])
    """Ids of samples whose gold completion scores differently at another position in the list."""
    unreadable: list[str] = field(default_factory=list[str])
    """The error of each gold answer that cannot be read."""

    def of(self, name: str) -> list[ProbeResult]:
        """The results of one probe, for samples that the reward applies to."""
        gold_scores = self.gold_scores
        return [r for r in self.results if r.probe.name == name and r.number in gold_scores]

    @property
    def gold_scores(self) -> dict[int, float]:
        """The gold completion's score of each sample that the reward applies to."""
        return {
            r.number: r.score
            for r in self.results
            if r.probe.kind == "gold" and r.score is not None
        }


def timed_call(
    reference: str, strings: bool, inputs: Sequence[RewardInput]
) -> tuple[Any, float, bool]:
    """One call in a worker: its value, its seconds, and whether it modified a sample."""
    function, signature = load_reward(reference, strings)
    before = pickle.dumps([x.sample for x in inputs])
    start = time.perf_counter()
    value = call_and_wait(function, signature, inputs)
    seconds = time.perf_counter() - start
    return value, seconds, pickle.dumps([x.sample for x in inputs]) != before


class Prober:
    """Probes one reward with the samples of a task."""

    def __init__(self, reward: WeightedReward, golden: GoldCompletions, seconds: float) -> None:
        """`seconds`: the time limit of a call."""
        self.reward = replace(reward, on_error="zero")
        self.golden = golden
        self.seconds = seconds
        self.worker = Worker()

    def run(self, outputs: Sequence[tuple[int, str]] = ()) -> ProbeResults:
        """Scores all probes of all samples, and stored outputs: (sample's number, text)."""
        results = ProbeResults(reward=self.reward, samples=len(self.golden.samples))
        timeouts: Counter[str] = Counter()
        try:
            for number in range(results.samples):
                self._probe_sample(number, results, timeouts)
            for number, text in outputs:
                output = Probe(name="a stored output", kind="loose", text=text)
                results.stored.append(self.score(number, output))
            self._repeat_gold_completions(results)
        finally:
            self.worker.close()
        return results

    def _probe_sample(self, number: int, results: ProbeResults, timeouts: Counter[str]) -> None:
        for probe in make_probes(self.golden, number):
            if timeouts[probe.name] >= MAX_TIMEOUTS_PER_PROBE or timeouts.total() >= MAX_TIMEOUTS:
                continue
            try:
                result = self.score(number, probe)
            except DataError as e:
                results.unreadable.append(str(e))
                return
            results.results.append(result)
            timeouts[probe.name] += bool(result.error and "was killed" in result.error)
            if probe.kind == "gold" and result.score is None and not result.failed:
                return  # the reward does not apply to this sample

    def _repeat_gold_completions(self, results: ProbeResults) -> None:
        """Scores the gold completions again: in another order and process, and at another position in their list."""
        self.worker.close()  # a new process has another hash seed
        for number, first_score in reversed(results.gold_scores.items()):
            gold = Probe(name="again", kind="gold", text=self.golden.texts[number])
            scores = [self.score(number, gold).score for _ in range(REPEATS)]
            sample = self.golden.samples[number].id
            if any(score != first_score for score in scores):
                results.unstable.append(sample)
            elif (
                self.reward.signature.scope != "rollout"
                and self.score(number, gold, 2).score != first_score
            ):
                results.position_dependent.append(sample)

    def score(self, number: int, probe: Probe, place: int = 0) -> ProbeResult:
        """Scores one completion. If the reward takes a list, the completion is at this place of a list with the gold
        completion and another sample's. Raises DataError for an unreadable gold answer."""
        sample = self.golden.samples[number]
        texts = [probe.text]
        if self.reward.signature.scope != "rollout":
            texts = [self.golden.texts[number], self.golden.other(number) or ""]
            texts.insert(place, probe.text)
        inputs = [RewardInput(text, sample, tuple(text.encode())) for text in texts]
        outcome, seconds, changed = None, 0.0, False
        reference, strings = self.reward.reference, self.reward.signature.strings
        assert reference is not None
        try:
            outcome, seconds, changed = self.worker.call(
                timed_call, reference, strings, inputs, seconds=self.seconds, loads=[reference]
            )
        except WorkerTimeout as e:
            outcome, seconds = e, self.seconds
        except Exception as e:
            outcome = e
        result = check_outcome(self.reward, inputs, outcome)[place]
        scores, error = result.scores, result.error
        applicable = [value for value in scores.values() if value is not None]
        return ProbeResult(
            probe=replace(probe, text=""),  # up to a hundred kilobytes each
            sample=sample.id,
            number=number,
            score=sum(applicable) if applicable and error is None else None,
            error=error,
            seconds=seconds,
            changed=changed,
        )
