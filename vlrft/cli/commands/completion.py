"""vlrft completion: a script that completes commands, options, names and files in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vlrft.cli.arguments.common import CONFIG, REWARD, TASK, path_argument


def run(args: argparse.Namespace) -> None:
    import shtab

    from vlrft.cli.main import parser

    top = parser()
    functions = []
    names = names_by_help()
    for action in actions(top):
        known: Any = action
        if action.type is path_argument:
            known.complete = shtab.FILE
        elif action.help in names:
            words = names[action.help]
            known.complete = {"bash": f"_vlrft_{action.dest}", "zsh": f"({' '.join(words)})"}
            functions.append(complete_in_bash(f"_vlrft_{action.dest}", words))
    preamble: Any = {"bash": "\n".join(dict.fromkeys(functions))}  # for this shell alone
    print(shtab.complete(top, args.shell, preamble=preamble))


def names_by_help() -> Mapping[str | None, Sequence[str]]:
    """The names that an argument takes, by its help text."""
    from vlrft.config.shipped import shipped_configs
    from vlrft.plugins.find import reward_names, task_names

    return {CONFIG: sorted(shipped_configs()), TASK: task_names(), REWARD: reward_names()}


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All actions of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from actions(command)


def complete_in_bash(function: str, words: Sequence[str]) -> str:
    """A function of bash that completes these words and files."""
    return f"{function}() {{\n  compgen -W '{' '.join(words)}' -- $1\n  compgen -f -- $1\n}}"
