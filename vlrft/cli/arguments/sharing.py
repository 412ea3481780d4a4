"""Arguments of export, push and completion."""

from __future__ import annotations

import argparse

from vlrft.cli.arguments.common import AddCommand, not_empty, path_argument

SHELLS = ("bash", "zsh", "tcsh")


def add_sharing(add: AddCommand) -> None:
    """Adds export, push and completion."""
    export = add(
        "export", "write a run's policy as a plain transformers folder, LoRA merged, with its card"
    )
    export.add_argument(
        "--out", type=path_argument, required=True, metavar="DIR", help="the folder to write"
    )
    push = add("push", "upload a model folder, or a run's policy, to the Hugging Face hub")
    push.add_argument("--private", action="store_true", help="make a new repository private")
    push.add_argument(
        "--revision", type=not_empty, metavar="BRANCH", help="a branch (default: main)"
    )
    push.add_argument(
        "--message", default="Upload by vlrft", metavar="TEXT", help="message of the commit"
    )
    for command in (export, push):
        add_source(command)
    push.add_argument("repository", metavar="OWNER/NAME", help="the repository on the hub")

    completion = add("completion", "print a script that completes commands in a shell")
    completion.add_argument("shell", choices=SHELLS, help="the shell")


def add_source(command: argparse.ArgumentParser) -> None:
    """Adds the model to export and how."""
    command.add_argument(
        "source", help="folder of a run, a checkpoint, or a LoRA adapter (folder or hub id)"
    )
    command.add_argument(
        "--checkpoint",
        type=not_empty,
        metavar="NAME",
        help="checkpoint of the run, such as step_300 (default: last)",
    )
    command.add_argument(
        "--dtype",
        choices=["float32", "bfloat16"],
        help="dtype of the weights (default: as they are stored)",
    )
    command.add_argument(
        "--base", type=not_empty, help="the model of the adapter, where the adapter names none"
    )
    command.add_argument(
        "--name", type=not_empty, help="name in the model card (default: of the folder)"
    )
    command.add_argument(
        "--license", type=not_empty, help="licence in the model card, such as apache-2.0"
    )
    command.add_argument(
        "--control",
        type=path_argument,
        metavar="RUN",
        help="a run of the same config with permute_rewards: true, for the card's table",
    )
