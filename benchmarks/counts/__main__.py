"""Work of one training step in exact counts: images, vision-tower forwards, decoder tokens, rows of the head.

    python -m benchmarks.counts [--group 8 --length 12] [--no-trl]

One step of `vlrft train` on a tiny Qwen2-VL and, where TRL is installed, of its GRPOTrainer on the same groups, counted by
hooks on the model's modules (vlrft/testing/work_meter.py). Counts depend on the model's shape, not on its size;
tests/testing/test_work_counts.py tests ours against a formula. TRL multiplies by the head's weight outside of the head's
module, so its head rows are not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vlrft.testing.count_step import StepCase, StepCounts, count_step

NO_KL = {"regularize": {"kl": 0.0}}
KEEP_ALL = {"keep": "all"}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "gpg": KEEP_ALL,
    "grpo": NO_KL,
    "dr_grpo": {},
    "gmpo": {},
    "gspo": {},
    "cw_grpo": NO_KL,
    "gvpo": {},
}
HEAD = (
    *("step", "prompt tokens", "answers", "images", "vision: forwards (patches)", "prefill", "decode"),
    *("update: vision", "backbone tokens", "head rows", "backward"),
)  # fmt: skip

Counter = Callable[[StepCase, Path], StepCounts]


def cases(size: int, length: int) -> dict[str, StepCase]:
    """Title in the table -> case."""
    base = StepCase(size=size, length=length)

    def build(name: str, **settings: Any) -> StepCase:
        return replace(base, algorithm={"name": name, **ALGORITHMS.get(name, {}), **settings})

    four: dict[str, Any] = {"groups": (True, False, True, False)}
    by_title = {f"{name}, a group with signal": build(name) for name in ALGORITHMS}
    by_title |= {
        f"{name}, a group without signal": replace(build(name), groups=(False,))
        for name in ALGORITHMS
    }
    by_title |= {
        "gvpo, reference: initial": build("gvpo", objective={"reference": "initial"}),
        "grpo, kl 0.04": build("grpo", regularize={"kl": 0.04}),
        "gpg, four groups, two with signal": replace(build("gpg"), **four),
        "gpg, two groups of one prompt": replace(build("gpg"), groups=(True, True), same=True),
        "gpg, frozen vision tower": replace(build("gpg"), freeze=("vision", "projector")),
        "dr_grpo, cppo, half": build("dr_grpo", select={"name": "cppo", "share": 0.5}),
        "dr_grpo, pods, half": build("dr_grpo", select={"name": "pods", "keep": size // 2}),
        "dr_grpo, four groups, two with signal": replace(build("dr_grpo"), **four),
        "the same, dynamic sampling": replace(
            build("dr_grpo", keep={"name": "dynamic_sampling", "max_attempts": 2}),
            groups=(True, False) * 4,
            prompts=4,
        ),
    }
    return by_title


def table_row(title: str, counts: StepCounts, *, head_counted: bool = True) -> tuple[str, ...]:
    rollout, update = counts.rollout, counts.update
    return (
        title,
        str(sum(g.prompt for g in counts.groups)),
        str(sum(map(sum, (g.answers for g in counts.groups)))),
        str(rollout.images),
        f"{rollout.vision} ({rollout.patches})",
        str(rollout.tokens),
        str(rollout.decoded),
        f"{update.vision} ({update.patches})",
        str(update.tokens),
        str(update.head) if head_counted else "not counted",
        str(update.backward),
    )


def count_quietly(counter: Counter, case: StepCase) -> StepCounts:
    """The case's counts, without the progress output of its run."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        return counter(case, Path(folder))


def savings(by_title: dict[str, StepCounts]) -> list[str]:
    """The work that selection and dynamic sampling add or save per group with signal, relative to a step without them."""
    lines = []
    for name, base in (
        ("dr_grpo, cppo, half", "dr_grpo, a group with signal"),
        ("dr_grpo, pods, half", "dr_grpo, a group with signal"),
        ("the same, dynamic sampling", "dr_grpo, four groups, two with signal"),
    ):
        counts, other = by_title[name], by_title[base]
        groups = sum(g.signal for g in counts.groups) / sum(g.signal for g in other.groups)

        def change(work: int, without: int, groups: float = groups) -> str:
            return f"{100 * (work / without / groups - 1):+.0f} %"

        lines.append(
            f"{name}, per group with signal: head rows {change(counts.update.head, other.update.head)}, "
            f"backbone tokens {change(counts.update.tokens, other.update.tokens)}, "
            f"patches {change(counts.update.patches, other.update.patches)}, "
            f"tokens decoded {change(counts.rollout.decoded, other.rollout.decoded)}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--length", type=int, default=12, help="tokens of every answer")
    parser.add_argument("--no-trl", action="store_true")
    args = parser.parse_args()
    names = ("vlrft", "torch", "transformers", "trl")
    print(", ".join(f"{n} {version(n)}" for n in names if find_spec(n)) + "\n")
    print(f"| {' | '.join(HEAD)} |\n| --- {'| ---: ' * (len(HEAD) - 1)}|", flush=True)
    counts: dict[str, StepCounts] = {}
    for title, case in cases(args.group, args.length).items():
        counts[title] = count_quietly(count_step, case)
        print(f"| {' | '.join(table_row(title, counts[title]))} |", flush=True)
    if find_spec("trl") and not args.no_trl:
        from benchmarks.counts.trl import count_trl_step

        base = StepCase(size=args.group, length=args.length)
        for title, case in (
            ("TRL, a group with signal", base),
            ("TRL, a group without signal", replace(base, groups=(False,))),
            ("TRL, four groups, two with signal", replace(base, groups=(True, False, True, False))),
        ):
            cells = table_row(title, count_quietly(count_trl_step, case), head_counted=False)
            print(f"| {' | '.join(cells)} |", flush=True)
    print("\n" + "\n".join(savings(counts)))


if __name__ == "__main__":
    main()
