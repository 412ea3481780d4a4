"""vlrft check reward: what a policy would find out about a reward, before it does."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from vlrft.cli.commands.score import read_predictions
from vlrft.config import RewardConfig
from vlrft.config.load import task_config
from vlrft.grading import read_answer
from vlrft.plugins.find import find_task
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import LoadedTask, load_rewards, load_task
from vlrft.schema import DataError, Sample
from vlrft.schema.errors import ConfigError
from vlrft.scoring.probing.prober import Prober
from vlrft.scoring.probing.probes import GoldCompletions
from vlrft.scoring.probing.verdict import Verdict


def run(args: argparse.Namespace) -> int:
    config = task_config(args.task, args.overrides)
    split = args.split or find_task(config.name).splits[0]
    loaded = load_task(config, split)
    samples = list(loaded.head(args.limit))
    if not samples or args.time_limit <= 0:
        raise ConfigError(["--limit and --time-limit must be greater than 0"])
    (reward,) = load_rewards({args.reward: RewardConfig(completions=args.completions)})
    outputs: list[tuple[int, str]] = []
    if args.predictions is not None:
        samples, outputs = stored(args.predictions, loaded, samples)
    probed = Prober(reward, golds_of(loaded, samples), args.time_limit).run(outputs)
    verdict = Verdict(probed)
    if args.json:
        about = {"task": loaded.task.name, "split": split}
        print(json.dumps({**about, **verdict.to_json()}, indent=1))
    else:
        print(f"{reward.name} ({reward.signature.scope}) on {loaded.task.name}/{split}")
        print("\n".join(report(verdict)))
    return 1 if verdict.flaws else 0


def golds_of(loaded: LoadedTask, samples: Sequence[Sample]) -> GoldCompletions:
    """Raises DataError for a task without gold answers."""
    extract = loaded.task.extract or read_answer
    texts = [gold_text(loaded.task, sample) for sample in samples]
    read = [extract(text) for text in texts]
    answers = [a if a and a in text else text for a, text in zip(read, texts, strict=True)]
    return GoldCompletions(samples=samples, texts=texts, answers=answers)


def stored(
    path: Path, loaded: LoadedTask, samples: list[Sample]
) -> tuple[list[Sample], list[tuple[int, str]]]:
    """The samples with those of the stored outputs added, and the outputs by the samples' places."""
    rows = [(str(row["id"]), str(row["output"])) for row in read_predictions(path)]
    wanted = {name for name, _ in rows} - {sample.id for sample in samples}
    more = (loaded.samples[k] for k in range(len(samples), len(loaded.samples)) if wanted)
    samples = [*samples, *(sample for sample in more if sample.id in wanted)]
    places = {sample.id: k for k, sample in enumerate(samples)}
    known = [(places[name], text) for name, text in rows if name in places]
    if not known:
        raise DataError(
            f"{path}: none of its {len(rows)} ids is a sample of this split; try --split"
        )
    if len(known) < len(rows):
        print(
            f"vlrft: {len(rows) - len(known)} outputs are of no sample of this split",
            file=sys.stderr,
        )
    return samples, known


def report(verdict: Verdict) -> list[str]:
    """Figures, a line a probe, notes and flaws."""
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
    stored = verdict.outputs()
    if stored:
        mean = "-" if stored["mean"] is None else f"{stored['mean']:.3f}"
        lines += [
            "",
            f"stored outputs: {stored['outputs']}, mean {mean}, {stored['errors']} errors",
        ]
    lines += ["", *(f"note: {note}" for note in verdict.notes)]
    lines += [f"flaw: {flaw}" for flaw in verdict.flaws] or ["no flaw found"]
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
