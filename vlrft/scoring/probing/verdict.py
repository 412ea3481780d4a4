"""What probing saw of a reward, judged: flaws that a policy would find, and what a person should know. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median, quantiles
from typing import Any

from vlrft.scoring.probing.prober import Probed, Seen
from vlrft.scoring.probing.probes import OTHER, RIGHT_FIRST, RIGHT_LAST

EQUAL = 1e-6  # scores that differ by less are one
PAID = 0.05  # of the way from the lowest score to the highest: so much for nothing is too much
CHANCE = 0.02  # of the samples: other answers that happen to be right, such as 1/2 for 0.5
FORM_ONLY = 0.98  # of the samples: a reward that any answer satisfies does not read answers
SLOW_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One probe on all samples that the reward applies to."""

    probe: str
    kind: str
    samples: int
    mean: float | None  # of the scores
    full: float  # share that scores as much as the gold completion, and it more than nothing
    paid: float  # share that scores more than nothing
    earned: float  # their mean
    right: float  # share of which it is the right answer
    none: float  # share that is said not to apply
    errors: int


class Verdict:
    """Rows, flaws and notes of one reward."""

    def __init__(self, found: Probed) -> None:
        self.found = found
        self.golds = found.golds
        scores = [s.score for s in found.seen if s.score is not None]
        self.low, self.high = min(scores, default=0.0), max(scores, default=0.0)
        self.distinct = len({round(s, 9) for s in scores})
        names = dict.fromkeys(s.probe.name for s in found.seen)
        self.rows = [self._row(own) for name in names if (own := found.of(name))]
        self.flaws = list(self._flaws())
        self.notes = list(self._notes())

    @property
    def form_only(self) -> bool:
        """Whether any answer in the right form does: then it is no flaw that wrong answers do."""
        row = self._of(OTHER)
        return row is not None and row.full >= FORM_ONLY and self.distinct > 1

    def to_json(self) -> dict[str, Any]:
        return {
            "reward": self.found.reward.name,
            "scope": self.found.reward.form.scope,
            "samples": self.found.samples,
            "applies": len(self.golds),
            "range": [self.low, self.high],
            "values": self.distinct,
            "latency": self.latency(),
            "probes": [asdict(row) for row in self.rows],
            "outputs": self.outputs(),
            "flaws": self.flaws,
            "notes": self.notes,
        }

    def latency(self) -> dict[str, Any]:
        """Seconds of a call, and what took longest."""
        seen = [*self.found.seen, *self.found.outputs]
        seconds = [s.seconds for s in seen] or [0.0]
        worst = max(seen, key=lambda s: s.seconds, default=None)
        return {
            "median": median(seconds),
            "p95": quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0],
            "worst": max(seconds),
            "on": None if worst is None else worst.probe.name,
            "sample": None if worst is None else worst.sample,
        }

    def outputs(self) -> dict[str, Any] | None:
        """What stored outputs earned; None when there are none."""
        seen = self.found.outputs
        if not seen:
            return None
        scores = [s.score for s in seen if s.score is not None]
        return {
            "outputs": len(seen),
            "mean": fmean(scores) if scores else None,
            "range": [min(scores), max(scores)] if scores else None,
            "none": _share([s.score is None and not s.failed for s in seen]),
            "errors": sum(s.failed for s in seen),
        }

    def _row(self, seen: Sequence[Seen]) -> Row:
        scores = [s.score for s in seen if s.score is not None]
        judged = [s for s in seen if not s.probe.fair]
        enough = self.low + PAID * (self.high - self.low) + EQUAL
        paid = [s for s in judged if s.score is not None and s.score > enough]
        return Row(
            probe=seen[0].probe.name,
            kind=seen[0].probe.kind,
            samples=len(seen),
            mean=fmean(scores) if scores else None,
            full=_share([self._full(s) for s in judged]),
            paid=_share([s in paid for s in judged]),
            earned=fmean(s.score or 0.0 for s in paid) if paid else 0.0,
            right=_share([s.probe.fair for s in seen]),
            none=_share([s.score is None and not s.failed for s in seen]),
            errors=sum(s.failed for s in seen),
        )

    def _full(self, seen: Seen) -> bool:
        """Whether a completion scores as much as the gold one, and that is more than nothing."""
        gold = self.golds[seen.number]
        return seen.score is not None and seen.score >= gold - EQUAL and gold > self.low + EQUAL

    def _of(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.probe == name), None)

    def _flaws(self) -> Iterator[str]:
        found, n = self.found, self.found.samples
        if found.unread:
            yield f"{len(found.unread)} of {n} gold answers cannot be read, such as: {found.unread[0]}"
        yield from self._errors([*found.seen, *found.outputs])
        if not self.golds:
            if not found.unread and not any(s.failed for s in found.seen):
                yield f"it applies to none of the {n} samples"
            return
        if self.distinct == 1:
            yield f"it gives {self.low:.2f} to everything, gold completions too: nothing can be learned from it"
            return
        yield from self._poor_gold()
        yield from self._gained()
        yield from self._hedging()
        for names, what in (
            (found.unstable, "the same completion does not always score the same"),
            (found.placed, "a completion's score depends on its place in the list"),
            (_changed(found.seen), "it changes the sample"),
        ):
            if names:
                yield f"{what} ({len(names)} samples, such as {names[0]})"
        stored = self.outputs()
        if stored and stored["range"] and stored["outputs"] > 9 and len(set(stored["range"])) == 1:
            yield f"it gives {stored['mean']:.2f} to all {stored['outputs']} stored outputs"

    def _gained(self) -> Iterator[str]:
        """What pays without being right."""
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
            more = f" (and so do {len(odd) - 1} other senseless ones)" if len(odd) > 1 else ""
            yield f"{worst.probe} scores full marks on {worst.full:.1%} of the samples{more}"

    def _poor_gold(self) -> Iterator[str]:
        best = max(self.golds.values())
        poor = [k for k, score in self.golds.items() if score < best - EQUAL]
        if poor:
            first = next(s for s in self.found.seen if s.number == poor[0])
            share = len(poor) / len(self.golds)
            yield (
                f"the gold completion scores less than {best:.2f} on {share:.1%} of the samples, "
                f"such as {first.sample} ({self.golds[poor[0]]:.2f})"
            )
        above = [s for s in self.found.seen if s.score is not None and s.score > best + EQUAL]
        if above:
            top = max(above, key=lambda s: s.score or 0.0)
            yield f"{top.probe.name} scores {top.score:.2f}, more than any gold completion ({best:.2f})"

    def _hedging(self) -> Iterator[str]:
        if self.form_only:
            return
        first, last = (
            {s.number for s in self.found.of(name) if self._full(s)}
            for name in (RIGHT_FIRST, RIGHT_LAST)
        )
        both = len(first & last) / len(self.golds)
        if both > CHANCE:
            yield f"a right and a wrong completion score full marks in either order on {both:.1%} of the samples"

    def _errors(self, seen: Sequence[Seen]) -> Iterator[str]:
        """A line for each thing that went wrong, with what it went wrong on."""
        kinds: dict[str, list[Seen]] = {}
        for one in seen:
            if one.error is not None:
                said = one.error.partition(f"reward {self.found.reward.name} ")[2] or one.error
                kinds.setdefault(said, []).append(one)
        for said, own in kinds.items():
            names = list(dict.fromkeys(s.probe.name for s in own))
            more = f" and {len(names) - 2} others" if len(names) > 2 else ""
            yield f"it {said} on {' and on '.join(names[:2])}{more} (such as sample {own[0].sample})"

    def _notes(self) -> Iterator[str]:
        form = self.found.reward.form
        if form.scope == "columns" and not form.strings and self.distinct < 2:
            yield (
                "it was given conversations, as TRL gives them; if it reads plain texts, use --completions text "
                "here and completions: text in its section of a config"
            )
        if self.form_only:
            yield "any answer in the right form scores full marks: right for a reward of form only"
        if self.low < -EQUAL or self.high > 1 + EQUAL:
            yield f"scores run from {self.low:.2f} to {self.high:.2f}: mind its weight beside others"
        for row in self.rows:
            if row.kind == "loose" and row.full > CHANCE and not self.form_only:
                yield f"{row.probe} scores full marks on {row.full:.1%} of the samples"
            if row.none:
                yield f"{row.probe} is said not to apply (None) on {row.none:.1%} of the samples"
        latency = self.latency()
        if latency["worst"] > SLOW_SECONDS:
            yield f"{latency['on']} took {latency['worst']:.1f} s (sample {latency['sample']})"


def _changed(seen: Sequence[Seen]) -> list[str]:
    return list(dict.fromkeys(s.sample for s in seen if s.changed))


def _share(marks: Sequence[bool]) -> float:
    return sum(marks) / len(marks) if marks else 0.0
