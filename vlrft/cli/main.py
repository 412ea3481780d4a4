"""The `vlrft` command. Results on stdout, progress on stderr; exit code 0, 1 (it failed) or 2 (wrong usage or config)."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from vlrft.cli.arguments import COMMANDS
from vlrft.config.shipped import package_version
from vlrft.schema.errors import VlrftError

TWO_WORDS = {"check": ("reward",), "new": ("reward", "task")}  # first word -> its second words


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. Each sets `module`, the module of `cli.commands` that runs it."""
    top = argparse.ArgumentParser(
        prog="vlrft", description="Reinforcement fine-tuning of vision-language models."
    )
    top.add_argument("--version", action="version", version=f"vlrft {package_version()}")
    top.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, description: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=description, description=description)
        command.set_defaults(module=name.replace(" ", "_"))
        command.add_argument(  # after the command, too
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        return command

    for add_commands in COMMANDS:
        add_commands(add)
    return top


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed arguments; KEY=VALUE may come before or after options. Exits with code 2 on wrong usage."""
    top = parser()
    words = join_command(sys.argv[1:] if arguments is None else arguments)
    args, rest = top.parse_known_args(words)
    overrides = [item for item in rest if "=" in item and not item.startswith("-")]
    if rest != overrides or (overrides and not hasattr(args, "overrides")):
        top.error(f"unrecognized arguments: {' '.join(rest)}")
    if overrides:
        args.overrides = [*args.overrides, *overrides]
    return args


def join_command(arguments: Sequence[str]) -> list[str]:
    """The arguments with a command of two words, such as `check reward`, as one argument."""
    words = list(arguments)
    first = next((k for k, word in enumerate(words) if not word.startswith("-")), len(words))
    if words[first + 1 : first + 2] and words[first + 1] in TWO_WORDS.get(words[first], ()):
        words[first : first + 2] = [f"{words[first]} {words[first + 1]}"]
    return words


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    args = parse(arguments)
    try:
        run = importlib.import_module(f"vlrft.cli.commands.{args.module}").run
        return int(run(args) or 0)
    except BrokenPipeError:  # the reader of stdout has closed it, as in `vlrft list | head`
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
        first_line = (str(e).splitlines() or [""])[0]
        print(
            f"vlrft: {type(e).__name__}: {first_line} (--debug shows the traceback)",
            file=sys.stderr,
        )
        return 1
