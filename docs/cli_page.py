"""The reference page of the command line, from the argument parser."""

from __future__ import annotations

import argparse
import textwrap

from page_text import GENERATED, cell

from vlrft.cli.main import parser

HEAD = f"""# Command line

{GENERATED}

Results go to stdout, progress and messages to stderr, with control sequences escaped and without secrets. Exit codes: 0, done;
1, it failed; 2, wrong usage or a mistake in the config; 3, a run ended without any reward from its first step to its last;
130, 143, 129, interrupted by ctrl-C, SIGTERM, SIGHUP. `--debug` shows the traceback of an error. An error that nobody expected leaves a crash report: `crash.txt` in the run's folder, or a temporary file that the
message names. `KEY=VALUE` arguments may come before or after the options.
"""


def cli_page() -> str:
    lines = [HEAD]
    (commands,) = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    for name, command in commands.choices.items():
        actions = [
            a for a in command._actions if a.help is not argparse.SUPPRESS and a.dest != "help"
        ]
        lines += [f"## vlrft {name}\n", f"{capitalise(command.description or '')}.\n"]
        lines += ["```text", *usage(f"vlrft {name}", actions), "```\n"]
        lines += ["| argument | |", "| --- | --- |"]
        lines += [f"| `{argument(a)}` | {cell(a.help or '')} |" for a in actions] + [""]
    return "\n".join(lines).rstrip() + "\n"


def usage(command: str, actions: list[argparse.Action]) -> list[str]:
    """`vlrft eval --model MODEL [--limit N] [KEY=VALUE …]`, wrapped."""
    words = [command]
    for action in sorted(actions, key=optional):
        text = argument(action)
        words.append(f"[{text}]" if optional(action) else text)
    return textwrap.wrap(" ".join(words), 100, subsequent_indent=" " * 4, break_on_hyphens=False)


def optional(action: argparse.Action) -> bool:
    return action.nargs in ("*", "?") or not action.required


def argument(action: argparse.Action) -> str:
    choices = ",".join(map(str, action.choices or ()))  # not `|`, which would divide a table's cell
    value = f"{{{choices}}}" if choices else action.metavar
    value = str(value or action.dest.upper())
    if not action.option_strings:
        return f"{value} …" if action.nargs == "*" else value
    return action.option_strings[-1] + ("" if action.nargs == 0 else f" {value}")


def capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
