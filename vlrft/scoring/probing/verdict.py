"""The verdict on a probed reward: flaws that a policy would exploit, and notes that a person should read. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median, quantiles
from typing import Any

from vlrft.scoring.probing.prober import ProbeResult, ProbeResults
from vlrft.scoring.probing.probes import OTHER, RIGHT_FIRST, RIGHT_LAST

EQUAL = 1e-6  # scores that differ by less count as equal
PAID = 0.05  # of the range of scores: a completion without an answer may score this much above the lowest score
CHANCE = 0.02  # of the samples: other answers that happen to be right, such as 1/2 for 0.5
FORM_ONLY = 0.98  # of the samples: a reward that any answer satisfies does not read answers
SLOW_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class ProbeSummary:
    """The results of one probe over all samples that the reward applies to."""

    probe: str
    kind: str
    samples: int
    mean: float | None  # of the scores
    full: float  # share that scores at least as much as the gold completion, if that scores more than the lowest
    paid: float  # share that scores clearly more than the lowest score
    earned: float  # the mean score of that share
    right: float  # share of samples for which the probe is the right answer
    none: float  # share to which the reward says it does not apply
    errors: int


class Verdict:
    """Summaries of the probes, flaws and notes of one reward."""

    def __init__(self, probed: ProbeResults, *, style: bool = False) -> None:
        """`style`: the reward is of style, such as length or diversity, and not meant to tell right answers from wrong."""
        self.probed = probed
        self.style = style
        self.gold_scores = probed.gold_scores
        self.best = max(self.gold_scores.values(), default=0.0)
        scores = [r.score for r in probed.results if r.score is not None]
        self.low, self.high = min(scores, default=0.0), max(scores, default=0.0)
        self.distinct = len({round(s, 9) for s in scores})
        names = dict.fromkeys(r.probe.name for r in probed.results)
        self.rows = [self._summarise(results) for name in names if (results := probed.of(name))]
        self.flaws = list(self._flaws())
        self.notes = list(self._notes())

    @property
    def form_only(self) -> bool:
        """Whether any answer in the right form scores full marks; full marks for wrong answers are then no flaw."""
        row = self._row(OTHER)
        return row is not None and row.full >= FORM_ONLY and self.distinct > 1

    def to_json(self) -> dict[str, Any]:
        return {
            "reward": self.probed.reward.name,
            "scope": self.probed.reward.signature.scope,
            "samples": self.probed.samples,
            "applies": len(self.gold_scores),
            "range": [self.low, self.high],
            "values": self.distinct,
            "latency": self.latency(),
            "probes": [asdict(row) for row in self.rows],
            "outputs": self.outputs(),
            "flaws": self.flaws,
            "notes": self.notes,
        }

    def latency(self) -> dict[str, Any]:
        """Seconds of a call, and the slowest call."""
        results = [*self.probed.results, *self.probed.stored]
        seconds = [r.seconds for r in results] or [0.0]
        slowest = max(results, key=lambda r: r.seconds, default=None)
        return {
            "median": median(seconds),
            "p95": quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0],
            "worst": max(seconds),
            "on": None if slowest is None else slowest.probe.name,
            "sample": None if slowest is None else slowest.sample,
        }

    def outputs(self) -> dict[str, Any] | None:
        """A summary of the stored outputs; None if there are none."""
        results = self.probed.stored
        if not results:
            return None
        scores = [r.score for r in results if r.score is not None]
        return {
            "outputs": len(results),
            "mean": fmean(scores) if scores else None,
            "range": [min(scores), max(scores)] if scores else None,
            "none": _share([r.score is None and not r.failed for r in results]),
            "errors": sum(r.failed for r in results),
        }

    def _summarise(self, results: Sequence[ProbeResult]) -> ProbeSummary:
        scores = [r.score for r in results if r.score is not None]
        counted = [r for r in results if not r.probe.fair]
        threshold = self.low + PAID * (self.high - self.low) + EQUAL
        paid = [r for r in counted if r.score is not None and r.score > threshold]
        return ProbeSummary(
            probe=results[0].probe.name,
            kind=results[0].probe.kind,
            samples=len(results),
            mean=fmean(scores) if scores else None,
            full=_share([self._has_full_marks(r) for r in counted]),
            paid=_share([r in paid for r in counted]),
            earned=fmean(r.score or 0.0 for r in paid) if paid else 0.0,
            right=_share([r.probe.fair for r in results]),
            none=_share([r.score is None and not r.failed for r in results]),
            errors=sum(r.failed for r in results),
        )

    def _has_full_marks(self, result: ProbeResult) -> bool:
        """Whether a completion scores at least as much as the gold completion, and that one has the best score of all gold
        completions, above the lowest. One that scores less is a flaw of its own, not one of every probe."""
        gold = self.gold_scores[result.number]
        earned = gold >= self.best - EQUAL and gold > self.low + EQUAL
        return result.score is not None and result.score >= gold - EQUAL and earned

    def _row(self, name: str) -> ProbeSummary | None:
        return next((row for row in self.rows if row.probe == name), None)

    def _flaws(self) -> Iterator[str]:
        probed, n = self.probed, self.probed.samples
        if probed.unreadable:
            count = len(probed.unreadable)
            yield f"{count} of {n} gold answers cannot be read, such as: {probed.unreadable[0]}"
        yield from self._errors([*probed.results, *probed.stored])
        if not self.gold_scores:
            if not probed.unreadable and not any(r.failed for r in probed.results):
                yield f"it applies to none of the {n} samples"
            return
        if self.distinct == 1:
            yield f"it gives {self.low:.2f} to everything, including gold completions: nothing can be learned from it"
            return
        if not self.style:
            yield from self._gold_flaws()
            yield from self._undeserved_scores()
            yield from self._hedging()
        for names, problem in (
            (probed.unstable, "the same completion does not always score the same"),
            (probed.position_dependent, "a completion's score depends on its place in the list"),
            (_changed_samples(probed.results), "it modifies the sample"),
        ):
            if names:
                yield f"{problem} ({len(names)} samples, such as {names[0]})"
        stored = self.outputs()
        if stored and stored["range"] and stored["outputs"] > 9 and len(set(stored["range"])) == 1:
            yield f"it gives {stored['mean']:.2f} to all {stored['outputs']} stored outputs"

    def _undeserved_scores(self) -> Iterator[str]:
        """Probes without a right answer that score."""
        for row in self.rows:
            if row.kind == "empty" and row.paid:
                yield f"{row.probe} scores {row.earned:.2f} on {row.paid:.1%} of the samples"
        if self.form_only:
            return
        for row in self.rows:
            if row.kind == "wrong" and row.full > CHANCE:
                right = f"; it is right on {row.right:.1%}" if row.right else ""
                yield f"{row.probe} scores full marks on {row.full:.1%} of the samples{right}"
        odd = [row for row in self.rows if row.kind == "odd" and row.full > CHANCE]
        if odd:
            worst = max(odd, key=lambda row: row.full)
            more = f" (and so do {len(odd) - 1} other nonsense answers)" if len(odd) > 1 else ""
            yield f"{worst.probe} scores full marks on {worst.full:.1%} of the samples{more}"

    def _gold_flaws(self) -> Iterator[str]:
        """Gold completions that score less than others, and probes that score more."""
        best = self.best
        poor = [k for k, score in self.gold_scores.items() if score < best - EQUAL]
        if poor:
            first = next(r for r in self.probed.results if r.number == poor[0])
            share = len(poor) / len(self.gold_scores)
            yield (
                f"the gold completion scores less than {best:.2f} on {share:.1%} of the samples, "
                f"such as {first.sample} ({self.gold_scores[poor[0]]:.2f})"
            )
        above = [r for r in self.probed.results if r.score is not None and r.score > best + EQUAL]
        if above:
            top = max(above, key=lambda r: r.score or 0.0)
            yield f"{top.probe.name} scores {top.score:.2f}, more than any gold completion ({best:.2f})"

    def _hedging(self) -> Iterator[str]:
        if self.form_only:
            return
        first, last = (
            {r.number for r in self.probed.of(name) if self._has_full_marks(r)}
            for name in (RIGHT_FIRST, RIGHT_LAST)
        )
        both = len(first & last) / len(self.gold_scores)
        if both > CHANCE:
            yield f"a right and a wrong completion score full marks in either order on {both:.1%} of the samples"

    def _errors(self, results: Sequence[ProbeResult]) -> Iterator[str]:
        """A line for each different error, with the probes that cause it."""
        by_error: dict[str, list[ProbeResult]] = {}
        for result in results:
            if result.error is not None:
                prefix = f"reward {self.probed.reward.name} "
                error = result.error.partition(prefix)[2] or result.error
                by_error.setdefault(error, []).append(result)
        for error, failed in by_error.items():
            names = list(dict.fromkeys(r.probe.name for r in failed))
            more = f" and {len(names) - 2} others" if len(names) > 2 else ""
            causes = f"{' and on '.join(names[:2])}{more}"
            yield f"it {error} on {causes} (such as sample {failed[0].sample})"

    def _notes(self) -> Iterator[str]:
        signature = self.probed.reward.signature
        if signature.scope == "columns" and not signature.strings and self.distinct < 2:
            yield (
                "it was called with conversations, as TRL does; if it reads plain texts, use --completions text "
                "here and completions: text in its section of a config"
            )
        if self.style:
            yield "checked as a reward of style: what it pays for wrong answers is no flaw; keep its weight small"
        elif self.form_only:
            yield "any answer in the right form scores full marks: right for a reward of form only"
        if self.low < -EQUAL or self.high > 1 + EQUAL:
            yield (
                f"scores range from {self.low:.2f} to {self.high:.2f}: choose its weight relative to the other "
                "rewards accordingly"
            )
        for row in self.rows:
            if row.kind == "loose" and row.full > CHANCE and not (self.form_only or self.style):
                yield f"{row.probe} scores full marks on {row.full:.1%} of the samples"
            if row.none:
                yield f"the reward returns None (does not apply) for {row.probe} on {row.none:.1%} of the samples"
        latency = self.latency()
        if latency["worst"] > SLOW_SECONDS:
            yield f"{latency['on']} took {latency['worst']:.1f} s (sample {latency['sample']})"


def _changed_samples(results: Sequence[ProbeResult]) -> list[str]:
    return list(dict.fromkeys(r.sample for r in results if r.changed))


def _share(marks: Sequence[bool]) -> float:
    return sum(marks) / len(marks) if marks else 0.0
