"""The `vlrft` command. Results on stdout, progress on stderr.

Exit code 0; 1: it failed; 2: wrong usage or config; 3: a run ended without any reward from
its first step to its last; 130, 143, 129: interrupted by SIGINT (ctrl-C), SIGTERM, SIGHUP. An error is one
line on stderr, without control sequences and secrets; an exception without a line of ours also leaves a crash report.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from signal import Signals
from typing import Any, NoReturn

from vlrft.cli.arguments import COMMANDS
from vlrft.cli.crash_report import write_crash_report
from vlrft.cli.cuda_allocator import choose_allocator
from vlrft.cli.signals import handled_signals
from vlrft.config.foreign_names import key_of_foreign, option_of_foreign
from vlrft.config.shipped import package_version
from vlrft.distributed.interrupts import Interrupted
from vlrft.plugins.attribution import describe_raise
from vlrft.plugins.names import did_you_mean
from vlrft.reporting.run_folder.names import default_folder
from vlrft.schema.errors import VlrftError
from vlrft.schema.terminal import guarded_streams

PACKAGE = Path(__file__).parents[1]
WRONG_CONFIG = 2  # exit code
GIVEN = "_given"  # in a namespace: the options that have a value
TWO_WORDS = {"check": ("reward",), "new": ("reward", "task")}  # first word -> its second words


class StoreOnce(argparse._StoreAction):
    """An option with a value, of which a second one would drop the first."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        given = vars(namespace).setdefault(GIVEN, set())
        if option is not None and self.dest in given:
            raise argparse.ArgumentError(self, "is given twice; give it once")
        given.add(self.dest)
        super().__call__(parser, namespace, values, option)


class Parser(argparse.ArgumentParser):
    """A parser whose message for a wrong value is one line, and for a wrong choice suggests the near one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.register("action", None, StoreOnce)
        self.register("action", "store", StoreOnce)

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message)
        if choice is not None:
            wrong, names = choice[1], re.findall(r"[^', ]+", choice[2])
            message = message.replace(f"{wrong!r} (", f"{wrong!r}{did_you_mean(wrong, names)} (")
        if not message.startswith("argument "):
            self.print_usage(sys.stderr)
        self.exit(WRONG_CONFIG, f"{self.prog}: {message.removeprefix('argument ')}\n")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. Each sets `module`, the module of `cli.commands` that runs it."""
    top = Parser(prog="vlrft", description="Reinforcement fine-tuning of vision-language models.")
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
    _explain_command(top, words)
    args, rest = top.parse_known_args(words)
    overrides = [item for item in rest if "=" in item and not item.startswith("-")]
    taken = overrides if hasattr(args, "overrides") else []
    if wrong := [item for item in rest if item not in taken]:
        top.error(f"unrecognized arguments: {' '.join(wrong)}{_as_override(wrong, words)}")
    if overrides:
        args.overrides = [*args.overrides, *overrides]
    return args


def _explain_command(top: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Exits where the first word needs a second one, and with a suggestion where it is no command."""
    first = next((word for word in words if not word.startswith("-")), "")
    (commands,) = (a.choices for a in top._actions if isinstance(a, argparse._SubParsersAction))
    if not first or first in commands:
        return
    if first in TWO_WORDS:
        usage = f"usage: {top.prog} {first} {{{','.join(TWO_WORDS[first])}}} …\n"
        if {"-h", "--help"} & set(words):
            print(usage, end="")
            top.exit()
        top.exit(2, f"{usage}vlrft: error: {first} what? {' or '.join(TWO_WORDS[first])}\n")
    top.error(
        f"unknown command {first!r}{did_you_mean(first, commands) or '; vlrft --help lists them'}"
    )


def _as_override(rest: Sequence[str], words: Sequence[str]) -> str:
    """How the first unknown word is given here, where it is a setting of another toolkit such as --learning_rate, or a folder
    after --resume."""
    if ("--resume", rest[0]) in pairwise(words):
        return f"; --resume takes no folder: vlrft train CONFIG --out {rest[0]} --resume"
    name = next((word.lstrip("-").partition("=")[0] for word in rest if word.startswith("--")), "")
    ours, option = key_of_foreign(name), option_of_foreign(name)
    if ours:
        return f"; settings are given as KEY=VALUE, this one as {ours.partition(' ')[0]}=…"
    if name.partition(".")[0] in _config_keys():
        return f"; settings are given as KEY=VALUE, this one as {name}=…"
    return f"; give {option}" if option else ""


def _config_keys() -> set[str]:
    from vlrft.config import Config

    return {field.name for field in fields(Config)}


def join_command(arguments: Sequence[str]) -> list[str]:
    """The arguments with a command of two words, such as `check reward`, as one argument."""
    words = list(arguments)
    first = next((k for k, word in enumerate(words) if not word.startswith("-")), len(words))
    if words[first + 1 : first + 2] and words[first + 1] in TWO_WORDS.get(words[first], ()):
        words[first : first + 2] = [f"{words[first]} {words[first + 1]}"]
    return words


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    choose_allocator()
    with guarded_streams(), handled_signals(), warnings.catch_warnings():
        # pictures are refused by name where they cannot be used; PIL warns of large ones and of damage beside the pixels
        warnings.filterwarnings("ignore", module=r"PIL\.")
        args = None
        try:
            args = parse(words)
            run = importlib.import_module(f"vlrft.cli.commands.{args.module}").run
            return int(run(args) or 0)
        except BrokenPipeError:  # the reader of stdout has closed it, as in `vlrft list | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (KeyboardInterrupt, SystemExit, Exception) as e:
            wrong_usage = args is None and isinstance(e, SystemExit)
            if wrong_usage or _is_own_exit(e):
                raise
            if (
                args is not None and args.debug
            ):  # here, where secrets and control sequences are left out
                traceback.print_exception(e)
            code, line = explain(e, words, args)
            print(f"vlrft: {line}", file=sys.stderr)
            return code


def explain(
    error: BaseException, words: Sequence[str], args: argparse.Namespace | None
) -> tuple[int, str]:
    """The exit code of an error and its line. For an error that nobody expected a crash report is written."""
    match error:
        case VlrftError():
            file = getattr(args, "config", None) if error.exit_code == WRONG_CONFIG else None
            return error.exit_code, _name_file(str(error), file)
        case Interrupted():
            return error.exit_code, str(error) or f"stopped by {Signals(error.number).name}"
        case KeyboardInterrupt():
            return 130, "stopped"
        case SystemExit():
            return (
                1,
                f"code that is not part of vlrft {describe_raise(error)} and so ended the command",
            )
        case MemoryError():
            return (
                1,
                f"out of memory: {_first_line(error)} (vlrft doctor CONFIG shows what needs it)",
            )
        case OSError():  # of a file, a network or a package that downloads; BrokenPipeError has gone before
            place = f"{error.filename}: " if error.filename else ""
            return 1, f"{place}{error.strerror or _first_line(error)} (--debug shows the traceback)"
    if type(error).__name__ == "OutOfMemoryError":  # torch's; this module imports no torch
        return 1, f"out of memory: {_first_line(error)} (vlrft doctor CONFIG shows what needs it)"
    line = f"{type(error).__name__}: {_first_line(error)}"
    try:
        path = write_crash_report(error, words, _run_folder(args))
    except OSError as e:
        return 1, f"{line} (--debug shows the traceback; no crash report: {e.strerror})"
    return 1, f"{line}; a fault of vlrft or of a plugin, please report it with {path}"


def _name_file(message: str, file: str | None) -> str:
    """The message with the config's file before each key of it, as mistakes have it that are found when the file is read: settings of
    algorithms and engines are read later."""
    if file is None:
        return message
    sections = "|".join(_config_keys())
    return re.sub(
        rf"^(?=({sections})[.:\[])(?!{re.escape(file)}:)", f"{file}: ", message, flags=re.M
    )


def _is_own_exit(error: BaseException) -> bool:
    """Whether vlrft itself ends the command; a plugin's sys.exit would end it without a word."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, SystemExit) and Path(frames[-1].filename).is_relative_to(PACKAGE)


def _run_folder(args: argparse.Namespace | None) -> Path | None:
    """The folder that `--out` names, or that of a run without it; None for a command that has neither."""
    out, config = getattr(args, "out", None), getattr(args, "config", None)
    if out is None and (config is None or not hasattr(args, "out")):
        return None
    return out or default_folder(str(config))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]
