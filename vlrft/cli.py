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
        found.set_defaults(module=name)
        found.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        return found

    train = command("train", "train a policy from one config, through all its stages")
    train.add_argument("config", help="a YAML file")
    train.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)
    train.add_argument("--out", type=Path, help="folder of the run (default: runs/CONFIG's name)")
    train.add_argument("--resume", action="store_true", help="go on from the last good checkpoint")
    train.add_argument("--overwrite", action="store_true", help="replace a run that is there")

    evaluate = command("eval", "evaluate a checkpoint on a task")
    evaluate.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="such as options.canvas=[112] or rollout.max_tokens=64",
    )
    evaluate.add_argument("--model", required=True, help="a hub id or a folder")
    evaluate.add_argument(
        "--task", required=True, help="a pack, package.module:task or ./file.py:task"
    )
    evaluate.add_argument("--split", default="test")
    evaluate.add_argument("--limit", type=int, help="only the first N samples")
    evaluate.add_argument(
        "--json", type=Path, metavar="FILE", help="write figures and every record"
    )
    evaluate.add_argument("--overwrite", action="store_true", help="replace FILE")

    listing = command("list", "what there is by name")
    listing.add_argument("kind", nargs="?", choices=["tasks", "rewards", "algorithms"])
    listing.add_argument("--json", action="store_true")

    show = command("show", "a config resolved, or what a task, reward or algorithm is")
    show.add_argument("name", help="a YAML file, or a name that `vlrft list` prints")
    show.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=OVERRIDES)

    check = command(
        "check", "feed a task's gold answers through its strict rewards; show one prompt"
    )
    check.add_argument("task", help="a pack, package.module:task or ./file.py:task")
    check.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="such as options.canvas=[112]"
    )
    check.add_argument(
        "--limit", type=int, default=500, help="samples of each split (default: 500)"
    )

    report = command("report", "write RUN/report.html anew")
    report.add_argument("run", type=Path)

    command("doctor", "versions, device, what works here and what to install")
    return top


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments; `key=value` may stand before and after options. Exits with 2 on wrong usage."""
    top = parser()
    args, rest = top.parse_known_args(arguments)
    late = [item for item in rest if "=" in item and not item.startswith("-")]
    if rest != late or (late and not hasattr(args, "overrides")):
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    if late:
        args.overrides = [*args.overrides, *late]
    return args


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
