"""The `vlrft` command. Results on stdout, progress on stderr; exit code 0, 1 (it failed) or 2 (wrong usage or config)."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import vlrft
from vlrft.config import ConfigError
from vlrft.plugins import PluginError
from vlrft.schema import VlrftError

TASK = "a pack, package.module:task or ./file.py:task"
REWARD = "a name that vlrft list rewards prints, package.module:function or ./file.py:function"
TWO_WORDS = {"check": ("reward",), "new": ("reward", "task")}  # commands of two words, by the first
OVERRIDES = "key.path=value, such as rollout.group_size=16 or stages.1.steps=50"


def parser() -> argparse.ArgumentParser:
    """Every command; each names the module under `commands` that runs it."""
    top = argparse.ArgumentParser(
        prog="vlrft", description="Reinforcement fine-tuning of vision-language models."
    )
    top.add_argument("--version", action="version", version=f"vlrft {vlrft.__version__}")
    top.add_argument("--debug", action="store_true", help="show tracebacks")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=text, description=text)
        found.set_defaults(module=name.replace(" ", "_"))
        found.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        return found

    train = command("train", "train a policy from one config, through all its stages")
    train.add_argument("config", help="a YAML file, or a name that vlrft list configs prints")
    train.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)
    train.add_argument("--out", type=Path, help="folder of the run (default: runs/CONFIG's name)")
    train.add_argument("--resume", action="store_true", help="go on from the last good checkpoint")
    train.add_argument("--overwrite", action="store_true", help="replace a run that is there")

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
    data.add_argument("--html", type=Path, metavar="FILE", help="show: a contact sheet with boxes")
    data.add_argument("--overwrite", action="store_true", help="replace what is there")

    listing = command("list", "what there is by name")
    listing.add_argument("kind", nargs="?", choices=["tasks", "rewards", "algorithms", "configs"])
    listing.add_argument("--json", action="store_true")

    show = command("show", "a config resolved, or what a task, reward or algorithm is")
    show.add_argument("name", help="a YAML file, or a name that `vlrft list` prints")
    show.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)

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

    report = command("report", "write RUN/report.html anew")
    report.add_argument("run", type=Path)

    command("doctor", "versions, device, what works here and what to install")
    return top


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments; `key=value` may stand before and after options. Exits with 2 on wrong usage."""
    top = parser()
    args, rest = top.parse_known_args(_joined(sys.argv[1:] if arguments is None else arguments))
    late = [item for item in rest if "=" in item and not item.startswith("-")]
    if rest != late or (late and not hasattr(args, "overrides")):
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    if late:
        args.overrides = [*args.overrides, *late]
    return args


def _joined(arguments: Sequence[str]) -> list[str]:
    """A command of two words as one argument."""
    found = list(arguments)
    first = next((k for k, word in enumerate(found) if not word.startswith("-")), len(found))
    if found[first + 1 : first + 2] and found[first + 1] in TWO_WORDS.get(found[first], ()):
        found[first : first + 2] = [f"{found[first]} {found[first + 1]}"]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    args = parse(arguments)
    try:
        run = importlib.import_module(f"vlrft.commands.{args.module}").run
        return int(run(args) or 0)
    except VlrftError as e:
        if args.debug:
            raise
        print(f"vlrft: {e}", file=sys.stderr)
        return 2 if isinstance(e, ConfigError | PluginError) else 1
    except KeyboardInterrupt:
        print("vlrft: stopped", file=sys.stderr)
        return 1
    except Exception as e:
        if args.debug:
            raise
        first = (str(e).splitlines() or [""])[0]
        print(f"vlrft: {type(e).__name__}: {first} (--debug shows where)", file=sys.stderr)
        return 1
