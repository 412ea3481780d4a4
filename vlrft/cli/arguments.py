"""The commands and their arguments; `cli` parses them, `commands` runs them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

TASK = "a pack, package.module:task or ./file.py:task"
REWARD = "a name that vlrft list rewards prints, package.module:function or ./file.py:function"
OVERRIDES = "key.path=value, such as rollout.group_size=16 or stages.1.steps=50"

Command = Callable[[str, str], argparse.ArgumentParser]  # name, what it does


def running(command: Command) -> None:
    """Training, and the page of a run."""
    train = command("train", "train a policy from one config, through all its stages")
    launch = command("launch", "the same in several processes of this machine, a GPU each")
    launch.add_argument("--ranks", type=int, required=True, metavar="N", help="processes")
    for each in (train, launch):
        each.add_argument("config", help="a YAML file, or a name that vlrft list configs prints")
        each.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)
        each.add_argument(
            "--out", type=Path, help="folder of the run (default: runs/CONFIG's name)"
        )
        each.add_argument(
            "--resume", action="store_true", help="go on from the last good checkpoint"
        )
        each.add_argument("--overwrite", action="store_true", help="replace a run that is there")

    report = command("report", "write RUN/report.html anew")
    report.add_argument("run", type=Path)


def evaluating(command: Command) -> None:
    """Checkpoints and stored outputs."""
    evaluate = command("eval", "evaluate a checkpoint on a task, by every grader the task has")
    evaluate.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="such as options.canvas=[112], rollout.max_tokens=64, eval.answers=8 eval.temperature=0.6",
    )
    evaluate.add_argument("--model", required=True, help="a hub id or a folder")
    which = evaluate.add_mutually_exclusive_group(required=True)
    which.add_argument("--task", help=TASK)
    which.add_argument("--config", help="take task, rollout and eval from this YAML file")
    evaluate.add_argument("--split", help="default: test, or the config's")
    evaluate.add_argument("--limit", type=int, help="only the first N samples")
    evaluate.add_argument(
        "--json",
        type=Path,
        metavar="OUT",
        help="write figures, and every answer beside them; goes on where it was stopped",
    )
    evaluate.add_argument("--overwrite", action="store_true", help="replace OUT")

    score = command("score", "grade stored outputs of any model, without loading one")
    score.add_argument("task", help=TASK)
    score.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="such as options.k=4")
    score.add_argument(
        "--predictions",
        type=Path,
        required=True,
        metavar="FILE",
        help='rows {"id", "output"}; with "answer" where the data are not at hand',
    )
    score.add_argument("--data", help="where the pack's data are (options.data)")
    score.add_argument("--split", default="test")
    score.add_argument("--grader", choices=["official", "strict", "both"], default="both")
    score.add_argument("--json", type=Path, metavar="OUT", help="write figures and every record")
    score.add_argument("--overwrite", action="store_true", help="replace OUT")

    compare = command("compare", "two evaluations of the same samples, paired")
    compare.add_argument("before", type=Path, help="what vlrft eval or score wrote with --json")
    compare.add_argument("after", type=Path)
    compare.add_argument("--grader", choices=["official", "strict", "both"], default="both")
    compare.add_argument(
        "--by", default="kind", metavar="TAG", help="a row for each (default: kind)"
    )
    compare.add_argument("--threshold", type=float, help="a grade that counts as right")
    compare.add_argument("--json", type=Path, metavar="OUT")
    compare.add_argument("--overwrite", action="store_true", help="replace OUT")


def looking(command: Command) -> None:
    """What there is, and what works here."""
    listing = command("list", "what there is by name")
    listing.add_argument("kind", nargs="?", choices=["tasks", "rewards", "algorithms", "configs"])
    listing.add_argument("--json", action="store_true")

    show = command("show", "a config resolved, or what a task, reward or algorithm is")
    show.add_argument("name", help="a YAML file, or a name that `vlrft list` prints")
    show.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)

    doctor = command("doctor", "versions, device, what to install; of a config its peak memory")
    doctor.add_argument(
        "config", nargs="?", help="a YAML file, or a name that vlrft list configs prints"
    )
    doctor.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)
    doctor.add_argument(
        "--memory",
        metavar="SIZE",
        help="what the run may have, such as 80GiB; with device=cuda for a GPU that is not here (default: the machine's)",
    )
    doctor.add_argument(
        "--ranks", type=int, default=1, metavar="N", help="plan for one of N ranks (default: 1)"
    )


def making(command: Command) -> None:
    """Data, tasks and rewards: made, prepared and checked."""
    data = command("data", "prepare a pack's data, or look at them")
    data.add_argument("action", choices=["prepare", "show"])
    data.add_argument("task", help=TASK)
    data.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="such as options.k=4")
    data.add_argument(
        "--from", dest="where", metavar="PATH", help="raw form: a hub id, folder, zip or table"
    )
    data.add_argument("--out", type=Path, metavar="DIR", help="prepare: the folder to write")
    data.add_argument(
        "--split", action="append", help="may be given twice; default: all that the source has"
    )
    data.add_argument(
        "--count",
        action="append",
        metavar="SPLIT=N",
        help="prepare, for a task that makes its data: samples of a split, such as train=200; repeated or separated by commas",
    )
    data.add_argument("--seed", type=int, default=0, help="of what is made (default: 0)")
    data.add_argument("--html", type=Path, metavar="FILE", help="show: a contact sheet with boxes")
    data.add_argument("--overwrite", action="store_true", help="replace what is there")

    check = command(
        "check", "feed a task's gold answers through its strict rewards; show one prompt"
    )
    check.add_argument("task", help=TASK)
    check.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="such as options.canvas=[112]"
    )
    check.add_argument("--split", action="append", help="may be given twice; default: all")
    check.add_argument(
        "--limit", type=int, default=500, help="samples of each split (default: 500)"
    )

    reward = command(
        "check reward", "try to game a reward on a task's samples; exit code 1 if it can be"
    )
    reward.add_argument("reward", help=REWARD)
    reward.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="such as options.k=4")
    reward.add_argument("--task", required=True, help=TASK)
    reward.add_argument("--split", help="default: the task's first")
    reward.add_argument("--limit", type=int, default=100, help="samples (default: 100)")
    reward.add_argument(
        "--predictions",
        type=Path,
        metavar="FILE",
        help='stored outputs besides: rows {"id", "output"}',
    )
    reward.add_argument(
        "--time-limit", type=float, default=5.0, help="seconds a call may take (default: 5)"
    )
    reward.add_argument(
        "--completions",
        choices=["chat", "text"],
        help="what a TRL-style function gets (default: text where it is annotated list[str])",
    )
    reward.add_argument("--json", action="store_true")

    for kind in ("reward", "task"):
        new = command(f"new {kind}", f"write NAME.py, a small complete {kind} to change")
        new.set_defaults(module="new", kind=kind)
        new.add_argument("name", metavar="NAME", help="of the file and of what stands in it")
        new.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="default: here")
        new.add_argument("--overwrite", action="store_true", help="replace NAME.py")


EVERY = (running, evaluating, making, looking)  # in the order of `vlrft --help`
