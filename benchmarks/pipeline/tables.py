"""The page of the model: tables by servers, steps ahead and spread of lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vlrft.testing.pipeline.plan import Pipeline, Workload
from vlrft.testing.pipeline.report import Report
from vlrft.testing.pipeline.simulate import simulate

CELLS: dict[str, Callable[[Report], str]] = {
    "Tokens a second": lambda report: f"{report.tokens_per_second:,.0f}",
    "Idle share of the trainer, and of a server": lambda report: (
        f"{report.trainer_idle:.0%}, {report.server_idle:.0%}"
    ),
    "Staleness of a token, mean (and largest)": lambda report: (
        f"{report.staleness:.2f} ({report.max_staleness})"
    ),
}


def ahead_page(
    pipeline: Pipeline,
    work: Workload,
    servers: Sequence[int],
    ahead: Sequence[int],
    spreads: Sequence[float],
    steps: int,
    seed: int,
) -> list[str]:
    """Three tables for each spread; `steps` are measured after the first ones, in which the pipeline fills."""
    times = pipeline.server
    lines = [
        "# The pipeline of sampling and training, by a model",
        "",
        "`python -m benchmarks.pipeline`. **No number of this page is measured**: it is a discrete-event model with times that are given.",
        "`benchmarks/results/rollout_engines.md` has the model beside real runs on one CPU; the load of the machine differed between them.",
        "",
        f"A server decodes n rows in {1e3 * times.token:g} ms + (n - 1) · {1e3 * times.row:g} ms, at most {times.rows}; prefills a token in "
        f"{1e3 * times.prefill:g} ms;",
        f"an update takes {pipeline.train:g} s, new weights {pipeline.push:g} s, in which the servers are paused. A step is {work.samples} prompts of "
        f"{work.prompt} tokens with {work.group} completions each,",
        f"of {work.tokens:g} tokens in the mean (at most {work.max_tokens:,}). Spread is the standard deviation of the logarithm of a length. "
        f"{steps} steps, seed {seed}.",
    ]
    for spread in spreads:
        lengths = replace(work, spread=spread)
        skip = max(ahead) + 2
        drawn = [lengths.step(seed, step) for step in range(steps + skip)]
        reports = {
            (n, k): simulate(replace(pipeline, servers=n, ahead=k), drawn).report(skip)
            for n in servers
            for k in ahead
        }
        longest = max(turn.tokens for step in drawn for e in step for turn in e.turns)
        lines += ["", f"## Spread {spread:g} (the longest completion has {longest:,} tokens)"]
        for title, cell in CELLS.items():
            rows = [[f"{n}", *(cell(reports[n, k]) for k in ahead)] for n in servers]
            lines += [
                "",
                f"{title}:",
                "",
                *table(["servers", *(f"ahead {k}" for k in ahead)], rows),
            ]
    return lines


def episodes_page(
    pipeline: Pipeline,
    work: Workload,
    workers: int,
    spreads: Sequence[float],
    steps: int,
    seed: int,
) -> list[str]:
    """Seconds of a step of episodes in lock-step, and with each turn sent as it is ready."""
    lines = [
        "",
        "## Episodes of many turns: lock-step, and each turn as it is ready",
        "",
        f"{work.samples} samples with {work.group} episodes each, {work.turns} turns of {work.tokens:g} tokens; the environment takes {work.environment:g} s a turn in",
        f"the mean, in {workers} workers; one server, ahead 0. Spread is that of both lengths and environments' times. Seconds of sampling a step.",
        "",
    ]
    rows: list[list[str]] = []
    for spread in spreads:
        spreading = replace(work, spread=spread, environment_spread=spread)
        drawn = [spreading.step(seed, step) for step in range(steps)]
        seconds: list[float] = []
        for lock_step in (True, False):
            setup = replace(pipeline, env_workers=workers, lock_step=lock_step)
            played = simulate(setup, drawn).steps
            seconds.append(sum(step.sampled - step.begin for step in played) / len(played))
        together, alone = seconds
        rows.append([f"{spread:g}", f"{together:.1f}", f"{alone:.1f}", f"{together / alone:.2f}"])
    return lines + table(["spread", "lock-step", "as ready", "ratio"], rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "|" + " ---: |" * len(head)]
    return lines + [f"| {' | '.join(row)} |" for row in rows]
