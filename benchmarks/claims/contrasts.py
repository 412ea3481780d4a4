"""The papers' claims that five seeds did not decide: one contrast a claim, ten fresh seeds, equal rollouts, and noise in the rewards.

    python -m benchmarks.claims.contrasts --out runs/contrasts [--seeds 200 … 209] [--flips 0 0.3 0.1] [--jobs 1] [--report]

The same problem, policy and arms as `python -m benchmarks.claims`, whose sweep on seed 100 chose the learning rates. `--flips`: the share of
training rewards, drawn at random, that are the other of 0 and 1; accuracy is that of the true reward. What a test can find is
computed beforehand from the standard deviations over the five earlier seeds (`benchmarks/results/claims_2026-11-21.jsonl`). Runs
that are finished are not repeated. Writes contrasts.jsonl into --out, and contrasts.md next to it; --report only the latter.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.claims.arms import COMPARISONS
from benchmarks.claims.contrast_tests import Outcome, find_outcome, smallest_difference
from benchmarks.claims.run_stats import final
from benchmarks.claims.text_task import warm_up
from benchmarks.claims.train import train
from benchmarks.claims.verdicts import MARGIN

PILOT = Path(__file__).parents[1] / "results/claims_2026-11-21.jsonl"
RATES = {"gpg": 5e-4, "gmpo": 2e-4, "gmpo_fast": 1e-3, "cw": 2e-4, "gvpo": 2e-4}  # of claims.md
SEEDS = tuple(range(200, 210))
FLIPS = (0.0, 0.3, 0.1)
_GMPO, _GRPO = "gmpo, clip 0.4", "grpo, clip 0.2, no KL"
_FULL = "full, β 0.1"
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A claim as a difference: final accuracy of `arm` minus that of `than`, with the same seed and as many answers sampled; for
    stored rollouts, as many trained on."""

    claim: str
    comparison: str
    arm: str
    than: str
    margin: float = 0.0  # points that `arm` may lose: of a claim that it is no worse


CONTRASTS = (
    Contrast(claim="GPG: α helps", comparison="gpg", arm="C", than="B"),
    Contrast(claim="GPG: β_th helps", comparison="gpg", arm="D", than="C"),
    Contrast(claim="GMPO is better than GRPO", comparison="gmpo", arm=_GMPO, than=_GRPO),
    Contrast(claim="GMPO is better than GRPO at five times the rate", comparison="gmpo_fast", arm=_GMPO, than=_GRPO),
    Contrast(claim="CW-GRPO is better than GRPO", comparison="cw", arm="cw_grpo", than="grpo"),
    Contrast(claim="GVPO: the Cov term helps", comparison="gvpo", arm=_FULL, than="without Cov"),
    Contrast(claim="GVPO: half of the rollouts may be stored ones", comparison="gvpo", arm="50 % stored", than=_FULL, margin=MARGIN),
)  # fmt: skip

Job = tuple[str, str, float, int]  # comparison, arm, flips, seed


def run(job: Job, out: Path) -> Row:
    """Trains, unless the run's file is there, and returns its row."""
    comparison, name, flips, seed = job
    path = out / f"{comparison}_{name}_{flips:g}_{seed}.json".replace(" ", "_")
    if not path.exists():
        torch.set_num_threads(1)
        (arm,) = (a for a in COMPARISONS[comparison] if a.name == name)
        warm = load_file(out / f"warm_{seed}.safetensors")
        start = time.perf_counter()
        result = train(arm, RATES[comparison], seed, warm, flips=flips)
        row = {
            "comparison": comparison,
            "arm": name,
            "flips": flips,
            "seed": seed,
            "before": result["evals"]["accuracy"][0],
            "final": final(result),
            "rollouts": result["evals"]["rollouts"][-1],
            "seconds": round(time.perf_counter() - start, 1),
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
        }
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(row))
        unfinished.rename(path)
    done: Row = json.loads(path.read_text())
    return done


def list_jobs(seeds: Sequence[int], flips: Sequence[float]) -> list[Job]:
    """A seed at a time, each arm once."""
    sides = [(c.comparison, arm) for c in CONTRASTS for arm in (c.arm, c.than)]
    return [(*side, share, seed) for share in flips for seed in seeds for side in dict.fromkeys(sides)]  # fmt: skip


def accuracies(rows: Sequence[Row], contrast: Contrast, flips: float) -> list[tuple[float, float]]:
    """The final accuracies of `arm` and `than`, in points, with each seed that has both."""
    sides = [
        {
            r["seed"]: 100 * r["final"]
            for r in rows
            if (r["comparison"], r["arm"], r["flips"]) == (contrast.comparison, name, flips)
        }
        for name in (contrast.arm, contrast.than)
    ]
    return [(sides[0][seed], sides[1][seed]) for seed in sorted(sides[0].keys() & sides[1].keys())]


def outcome_of(pairs: Sequence[tuple[float, float]], margin: float = 0.0) -> Outcome:
    return find_outcome([one - other for one, other in pairs], margin)


def pilot_rows() -> list[Row]:
    """The earlier rows of the seeds that were reported."""
    rows = map(json.loads, PILOT.read_text().splitlines())
    return [row | {"final": final(row), "flips": 0.0} for row in rows if row["seed"] < min(SEEDS) and row["seed"] != 100]  # fmt: skip


def page(rows: Sequence[Row]) -> str:
    """The power beforehand, and a table for each share of flipped rewards."""
    pilot = pilot_rows()
    lines = [
        "# Claims that five seeds did not decide",
        "",
        "`python -m benchmarks.claims.contrasts --out runs/contrasts`: final accuracy, in points, of two arms with the same seed and as many answers sampled",
        "(for stored rollouts, as many trained on); the problem, arms and rates are those of [the claims](claims.md). GPG's arms: B subtracts the mean of the group from",
        "rewards, C also scales by α, D also replaces groups whose rewards are equal (β_th). Paired t-tests, two-sided, with Holm's correction over the contrasts of a",
        "table: a claim is *supported* where its corrected p is below 0.05 and the difference has the claimed sign, *contradicted* where it has the other.",
        "",
        f"That rollouts may be stored ones means, as there, that no more than {MARGIN:g} points are lost: the test is of the difference and -{MARGIN:g}. This margin was",
        "introduced after the runs, whose first test was against 0, as the other claims' is: what that says is in the intervals.",
        "",
        "## Stated beforehand",
        "",
        "The smallest true difference that ten seeds find in 8 of 10 cases at the strictest level of the correction, 0.05 / "
        f"{len(CONTRASTS)}, from the",
        "standard deviation over the five earlier seeds, without flips. Smaller ones may be missed; where the tables below have larger deviations, larger ones, too.",
        "With a margin it counts from there.",
        "",
        "| claim | difference | earlier mean | standard deviation | smallest |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for contrast in CONTRASTS:
        earlier = outcome_of(accuracies(pilot, contrast, 0.0))
        least = smallest_difference(earlier.deviation, len(SEEDS), 0.05 / len(CONTRASTS))
        shown = f"{least:.1f}"
        if contrast.margin:
            shown = (
                f"{-contrast.margin - least:+.1f} or less, {least - contrast.margin:+.1f} or more"
            )
        lines.append(
            f"| {contrast.claim} | {contrast.arm} − {contrast.than} | {earlier.mean:+.1f} | {earlier.deviation:.1f} | {shown} |"
        )
    for flips in sorted({row["flips"] for row in rows}):
        title = f"## {100 * flips:.0f} % of the rewards flipped"
        lines += ["", title, "", *table(CONTRASTS, [accuracies(rows, c, flips) for c in CONTRASTS])]
    if rows:
        kinds = dict.fromkeys(", ".join(f"{k} {v}" for k, v in r["versions"].items()) for r in rows)
        versions = " and ".join(kinds)  # both arms of a seed have the same
        counts = Counter(row["rollouts"] for row in rows)
        runs = ", ".join(f"{n} runs of {rollouts:,} rollouts" for rollouts, n in counts.most_common())  # fmt: skip
        fewer = sorted({row["arm"] for row in rows if row["rollouts"] < max(counts)})
        few = f" ({', '.join(fewer)}: as many answers, fewer of which are sampled)" if fewer else ""
        total = sum(row["seconds"] for row in rows)
        lines += ["", f"{runs}{few} on one thread, {total / 3600:.1f} hours; {versions}, {platform.machine()}."]  # fmt: skip
    return "\n".join(lines) + "\n"


def table(
    contrasts: Sequence[Contrast], accuracies: Sequence[Sequence[tuple[float, float]]]
) -> list[str]:
    """A row for each contrast. `accuracies`: of both arms with each seed."""
    lines = [
        "| claim | seeds | mean accuracies | difference [95 %] | standard deviation | p, corrected | |",
        "| --- | ---: | ---: | --- | ---: | ---: | --- |",
    ]
    outcomes = [outcome_of(pairs, c.margin) for c, pairs in zip(contrasts, accuracies, strict=True)]
    corrected = Outcome.correct(outcomes)
    for contrast, pairs, outcome, p in zip(contrasts, accuracies, outcomes, corrected, strict=True):
        low, high = outcome.interval
        one, other = (fmean(side) for side in zip(*pairs, strict=True))
        shown = "< 0.001" if p < 0.001 else f"{p:.3f}"
        lines.append(
            f"| {contrast.claim} | {outcome.count} | {one:.1f}, {other:.1f} | {outcome.mean:+.1f} [{low:+.1f}, {high:+.1f}] | {outcome.deviation:.1f} "
            f"| {shown} | {verdict(contrast, outcome, p)} |"
        )
    return lines


def verdict(contrast: Contrast, outcome: Outcome, p: float) -> str:
    if not p < 0.05:
        return "not decided"
    return "**supported**" if outcome.mean > -contrast.margin else "**contradicted**"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--flips", type=float, nargs="+", default=FLIPS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="only report the finished runs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.report:
        torch.set_num_threads(1)
        for seed in args.seeds:
            weights = args.out / f"warm_{seed}.safetensors"
            if not weights.exists():
                save_file(warm_up(seed).state_dict(), weights)
        with ProcessPoolExecutor(args.jobs) as pool:
            for row in pool.map(partial(run, out=args.out), list_jobs(args.seeds, args.flips)):
                print({k: row[k] for k in ("comparison", "arm", "flips", "seed", "final", "seconds")}, flush=True)  # fmt: skip
    rows = [json.loads(path.read_text()) for path in sorted(args.out.glob("*.json"))]
    (args.out / "contrasts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (args.out / "contrasts.md").write_text(page(rows))
    print(page(rows))


if __name__ == "__main__":
    main()
