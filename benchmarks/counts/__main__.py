"""What a group costs: images processed, forwards of the vision tower, tokens through the decoder, rows of the head.

    python -m benchmarks.counts [--group 8 --length 12] [--no-trl]

One step of `vlrft train` on a tiny Qwen2-VL, and of TRL's GRPOTrainer on the same groups where it is installed, counted by
hooks on the model's modules (counts_meter.py). Counts depend on the shape, not on the size, of the model;
tests/testing/test_work_counts.py holds ours to the law. TRL multiplies by the head's weight itself, so that its rows are not seen.
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

from vlrft.testing.count_step import Case, Counted, count

NO_KL = {"regularize": {"kl": 0.0}}
KEEP_ALL = {"keep": "all"}
METHODS: dict[str, dict[str, Any]] = {
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
    *("update: vision", "trunk tokens", "head rows", "backward"),
)  # fmt: skip

Counter = Callable[[Case, Path], Counted]


def cases(size: int, length: int) -> dict[str, Case]:
    """What is counted, by its name in the table."""
    one = Case(size=size, length=length)

    def by(name: str, **parts: Any) -> Case:
        return replace(one, method={"name": name, **METHODS.get(name, {}), **parts})

    four: dict[str, Any] = {"groups": (True, False, True, False)}
    found = {f"{name}, a group that teaches": by(name) for name in METHODS}
    found |= {
        f"{name}, a group that does not": replace(by(name), groups=(False,)) for name in METHODS
    }
    found |= {
        "gvpo, reference: initial": by("gvpo", objective={"reference": "initial"}),
        "grpo, kl 0.04": by("grpo", regularize={"kl": 0.04}),
        "gpg, four groups, two teach": replace(by("gpg"), **four),
        "gpg, two groups of one prompt": replace(by("gpg"), groups=(True, True), same=True),
        "gpg, frozen vision tower": replace(by("gpg"), freeze=("vision", "projector")),
        "dr_grpo, cppo, half": by("dr_grpo", select={"name": "cppo", "share": 0.5}),
        "dr_grpo, pods, half": by("dr_grpo", select={"name": "pods", "keep": size // 2}),
        "dr_grpo, four groups, two teach": replace(by("dr_grpo"), **four),
        "the same, dynamic sampling": replace(
            by("dr_grpo", keep={"name": "dynamic_sampling", "max_attempts": 2}),
            groups=(True, False) * 4,
            prompts=4,
        ),
    }
    return found


def row(name: str, found: Counted, *, head_seen: bool = True) -> tuple[str, ...]:
    rollout, update = found.rollout, found.update
    return (
        name,
        str(sum(g.prompt for g in found.played)),
        str(sum(map(sum, (g.answers for g in found.played)))),
        str(rollout.images),
        f"{rollout.vision} ({rollout.patches})",
        str(rollout.tokens),
        str(rollout.decoded),
        f"{update.vision} ({update.patches})",
        str(update.tokens),
        str(update.head) if head_seen else "not seen",
        str(update.backward),
    )


def quietly(counter: Counter, case: Case) -> Counted:
    """Without the progress of a run that is one step long."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        return counter(case, Path(folder))


def savings(by_name: dict[str, Counted]) -> list[str]:
    """What selection and dynamic sampling spare, in shares of the same without them."""
    lines = []
    for name, base in (
        ("dr_grpo, cppo, half", "dr_grpo, a group that teaches"),
        ("dr_grpo, pods, half", "dr_grpo, a group that teaches"),
        ("the same, dynamic sampling", "dr_grpo, four groups, two teach"),
    ):
        own, other = by_name[name], by_name[base]
        taught = sum(g.teaches for g in own.played) / sum(g.teaches for g in other.played)

        def more(mine: int, its: int, taught: float = taught) -> str:
            return f"{100 * (mine / its / taught - 1):+.0f} %"

        lines.append(
            f"{name}, for each group that teaches: head rows {more(own.update.head, other.update.head)}, "
            f"trunk tokens {more(own.update.tokens, other.update.tokens)}, "
            f"patches {more(own.update.patches, other.update.patches)}, "
            f"tokens decoded {more(own.rollout.decoded, other.rollout.decoded)}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--length", type=int, default=12, help="tokens of an answer; all have it")
    parser.add_argument("--no-trl", action="store_true")
    args = parser.parse_args()
    names = ("vlrft", "torch", "transformers", "trl")
    print(", ".join(f"{n} {version(n)}" for n in names if find_spec(n)) + "\n")
    print(f"| {' | '.join(HEAD)} |\n| --- {'| ---: ' * (len(HEAD) - 1)}|", flush=True)
    found: dict[str, Counted] = {}
    for name, case in cases(args.group, args.length).items():
        found[name] = quietly(count, case)
        print(f"| {' | '.join(row(name, found[name]))} |", flush=True)
    if find_spec("trl") and not args.no_trl:
        from benchmarks.counts.trl import count as count_trl

        one = Case(size=args.group, length=args.length)
        for name, case in (
            ("TRL, a group that teaches", one),
            ("TRL, a group that does not", replace(one, groups=(False,))),
            ("TRL, four groups, two teach", replace(one, groups=(True, False, True, False))),
        ):
            own = quietly(count_trl, case)
            print(f"| {' | '.join(row(name, own, head_seen=False))} |", flush=True)
    print("\n" + "\n".join(savings(found)))


if __name__ == "__main__":
    main()
