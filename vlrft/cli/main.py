"""The `vlrft` command. Results on stdout, progress on stderr; exit code 0, 1 (it failed) or 2 (wrong usage or config)."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from vlrft.cli.arguments import EVERY
from vlrft.config.shipped import package_version
from vlrft.schema import VlrftError

TWO_WORDS = {"check": ("reward",), "new": ("reward", "task")}  # commands of two words, by the first


def parser() -> argparse.ArgumentParser:
    """Every command; each names the module under `commands` that runs it."""
    top = argparse.ArgumentParser(
        prog="vlrft", description="Reinforcement fine-tuning of vision-language models."
    )
    top.add_argument("--version", action="version", version=f"vlrft {package_version()}")
    top.add_argument("--debug", action="store_true", help="show tracebacks")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=text, description=text)
        found.set_defaults(module=name.replace(" ", "_"))
        found.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        return found

    for group in EVERY:
        group(command)
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
        run = importlib.import_module(f"vlrft.cli.commands.{args.module}").run
        return int(run(args) or 0)
    except BrokenPipeError:  # such as `vlrft list | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except VlrftError as e:
        if args.debug:
            raise
        print(f"vlrft: {e}", file=sys.stderr)
        return e.exit_code
    except KeyboardInterrupt:
        print("vlrft: stopped", file=sys.stderr)
        return 1
    except Exception as e:
        if args.debug:
            raise
        first = (str(e).splitlines() or [""])[0]
        print(f"vlrft: {type(e).__name__}: {first} (--debug shows where)", file=sys.stderr)
        return 1
