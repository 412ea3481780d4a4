"""vlrft check reward: ways in which a policy could game a reward, found before training."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from vlrft.config import RewardConfig
from vlrft.config.load import task_config
from vlrft.config.unread import refuse_unread
from vlrft.evaluation.outputs.read import read_outputs
from vlrft.grading import read_answer
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import LoadedTask, load_rewards, load_task
from vlrft.schema import DataError, Sample
from vlrft.schema.pluralize import pluralize
from vlrft.scoring.probing.prober import Prober
from vlrft.scoring.probing.probes import GoldCompletions
from vlrft.scoring.probing.verdict import Verdict

UNREAD = {"env": "", "rewards": ""}  # sections of a task that its samples do not depend on


def run(args: argparse.Namespace) -> int:
    refuse_unread(args.overrides, UNREAD, "the check of a reward")
    config = task_config(args.task, args.overrides)
    split = args.split or find_task(config.name).splits[0]
    loaded = load_task(config, split)
    samples = list(loaded.head(args.limit))
    (reward,) = load_rewards({args.reward: RewardConfig(completions=args.completions)})
    outputs: list[tuple[int, str]] = []
    if args.predictions is not None:
        samples, outputs = match_outputs(args.predictions, loaded, samples)
    prober = Prober(reward, gold_completions(loaded, samples), args.time_limit)
    verdict = Verdict(prober.run(outputs), style=args.kind == "style")
    if args.json:
        about = {"task": loaded.task.name, "split": split}
        print(json.dumps({**about, **verdict.to_json()}, indent=1))
    else:
        print(f"{reward.name} ({reward.signature.scope}) on {loaded.task.name}/{split}")
        print("\n".join(report(verdict)))
    return 1 if verdict.flaws else 0


def gold_completions(loaded: LoadedTask, samples: Sequence[Sample]) -> GoldCompletions:
    """The gold completions of the samples, with their answers. Raises DataError for a task without gold answers."""
    extract = loaded.task.extract or read_answer
    texts = [gold_text(loaded.task, sample) for sample in samples]
    extracted = [extract(text) for text in texts]
    answers = [a if a and a in text else text for a, text in zip(extracted, texts, strict=True)]
    return GoldCompletions(samples=samples, texts=texts, answers=answers)


def match_outputs(
    path: Path, loaded: LoadedTask, samples: list[Sample]
) -> tuple[list[Sample], list[tuple[int, str]]]:
    """The samples, with those that the stored outputs answer appended, and each output with the index of its sample.

    Raises DataError when no output is of a sample of this split.
    """
    rows = [(row.id, row.output) for row in read_outputs(path).rows]
    missing = {name for name, _ in rows} - {sample.id for sample in samples}
    others = (loaded.samples[k] for k in range(len(samples), len(loaded.samples)) if missing)
    samples = [*samples, *(sample for sample in others if sample.id in missing)]
    indices = {sample.id: k for k, sample in enumerate(samples)}
    outputs = [(indices[name], text) for name, text in rows if name in indices]
    if not outputs:
        raise DataError(
            f"{path}: none of its {len(rows)} ids is a sample of this split; try --split"
        )
    if len(outputs) < len(rows):
        print(
            f"vlrft: {pluralize(len(rows) - len(outputs), 'output')} of no sample of this split",
            file=sys.stderr,
        )
    return samples, outputs


def report(verdict: Verdict) -> list[str]:
    """The printed report: ranges and latency, a line for each probe, notes and flaws."""
    probed, latency = verdict.probed, verdict.latency()
    lines = [
        f"applies to {len(verdict.gold_scores)} of {probed.samples} samples; scores from {verdict.low:.2f} to "
        f"{verdict.high:.2f}, {verdict.distinct} different; a call takes {_ms(latency['median'])} (median), "
        f"{_ms(latency['p95'])} (95 %), {_ms(latency['worst'])} (worst: {latency['on']})",
        "",
    ]
    width = max((len(row.probe) for row in verdict.rows), default=0)
    if verdict.rows:
        lines.append(f"{'':{width}}   mean  as gold  errors")
    for row in verdict.rows:
        mean = "   -" if row.mean is None else f"{row.mean:.2f}"
        line = f"{row.probe:{width}}  {mean:>5}  {row.full:7.1%}  {row.errors or '':>6}"
        lines.append(line.rstrip())
    outputs = verdict.outputs()
    if outputs:
        mean = "-" if outputs["mean"] is None else f"{outputs['mean']:.3f}"
        lines += [
            "",
            f"stored outputs: {outputs['outputs']}, mean {mean}, {outputs['errors']} errors",
        ]
    lines += ["", *(f"note: {note}" for note in verdict.notes)]
    lines += [f"flaw: {flaw}" for flaw in verdict.flaws] or ["no flaw found"]
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
