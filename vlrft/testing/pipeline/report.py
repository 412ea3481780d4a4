"""Throughput, idle shares and staleness of a simulated run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Interval = tuple[float, float]


@dataclass
class StepHistory:
    """The times of a step, in seconds from the begin of the run."""

    step: int
    version: int = 0  # of the weights that were out when its sampling began
    begin: float = 0.0  # of sampling
    sampled: float = 0.0  # its last episode
    train: float = 0.0  # the begin of its update
    end: float = 0.0  # its weights are out
    tokens: dict[int, float] = field(default_factory=dict[int, float])  # sampled, by version

    def add(self, tokens: Mapping[int, float]) -> None:
        """Counts the tokens of a completion, by version."""
        for version, count in tokens.items():
            self.tokens[version] = self.tokens.get(version, 0.0) + count


@dataclass(frozen=True, kw_only=True)
class Report:
    """Of the steps after the first ones. Shares are of the time, from 0 to 1."""

    step_seconds: float  # mean
    tokens_per_second: float  # sampled and trained on
    trainer_idle: float
    server_idle: float  # without a request, the mean over servers
    staleness: float  # mean over tokens, in steps
    max_staleness: int


@dataclass(frozen=True, kw_only=True)
class History:
    """All steps of a run, and the intervals in which each server had requests."""

    steps: Sequence[StepHistory]
    servers: Sequence[Sequence[Interval]]

    def report(self, skip: int = 0) -> Report:
        """Without the first `skip` steps, in which the pipeline fills."""
        start = self.steps[skip - 1].end if skip else 0.0
        steps, end = self.steps[skip:], self.steps[-1].end
        seconds = end - start
        ages = [
            (step.step - 1 - version, tokens)
            for step in steps
            for version, tokens in step.tokens.items()
        ]
        tokens = sum(count for _, count in ages)
        trained = _overlap(((step.train, step.end) for step in self.steps), start, end)
        sampled = sum(_overlap(server, start, end) for server in self.servers)
        return Report(
            step_seconds=seconds / len(steps),
            tokens_per_second=tokens / seconds,
            trainer_idle=1 - trained / seconds,
            server_idle=1 - sampled / seconds / len(self.servers),
            staleness=sum(age * count for age, count in ages) / tokens,
            max_staleness=max(age for age, count in ages if count),
        )


def _overlap(intervals: Iterable[Interval], start: float, end: float) -> float:
    """Seconds of the intervals between start and end."""
    return sum(max(0.0, min(b, end) - max(a, start)) for a, b in intervals)
