"""vlrft push: a model folder, or a run's policy, to the Hugging Face hub."""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from vlrft.cli.commands.export import export
from vlrft.schema.errors import ConfigError, VlrftError
from vlrft.schema.short_message import first_line

EXPORT_OPTIONS = ("checkpoint", "dtype", "base", "name", "license", "control")
REFS = "refs/"  # of a pull request, which is no branch
REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")


def run(args: argparse.Namespace) -> None:
    if not REPOSITORY.fullmatch(args.repository):
        raise ConfigError([f"{args.repository}: not a repository of the hub; give owner/name"])
    from vlrft.reporting.model_card.card import README

    folder = Path(args.source).expanduser()
    if (folder / README).is_file() and (folder / "config.json").is_file():
        refuse_export_options(folder, args)
        print(f"pushed: {upload(folder, args)}")
        return
    from vlrft.trainer.export import find_source

    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / args.repository.split("/")[1]
        args.name = args.name or args.repository
        export(find_source(args.source, args.checkpoint), out, args)
        print(f"pushed: {upload(out, args)}")


def refuse_export_options(folder: Path, args: argparse.Namespace) -> None:
    """Raises ConfigError, with a line for each, where options are given that change an export."""
    changes = [name for name in EXPORT_OPTIONS if getattr(args, name) is not None]
    if changes:
        raise ConfigError(
            [
                f"--{name}: {folder} is a finished model folder, which is uploaded as it is; leave it out, or push the run"
                for name in changes
            ]
        )


def upload(folder: Path, args: argparse.Namespace) -> str:
    """Uploads the folder in one commit, to a repository and a branch that are made where they do not exist; returns the
    repository's address. Raises ConfigError for a public repository where a private one is asked for, HubError for what the hub
    refuses."""
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        address = api.create_repo(args.repository, private=args.private, exist_ok=True)
        if args.private and api.repo_info(args.repository).private is False:
            raise ConfigError(
                [
                    f"--private: {args.repository} is there and public; leave the option out, or make the repository private "
                    "on the hub first"
                ]
            )
        if args.revision is not None and not args.revision.startswith(REFS):
            api.create_branch(args.repository, branch=args.revision, exist_ok=True)
        api.upload_folder(
            repo_id=args.repository,
            folder_path=folder,
            revision=args.revision,
            commit_message=args.message,
        )
    except ConfigError:
        raise
    except Exception as e:  # the library raises whatever its transports raise
        raise HubError(
            f"{args.repository}: cannot be pushed ({first_line(e)}); log in with `hf auth login`, or set HF_TOKEN to a "
            "token that may write"
        ) from e
    return str(address)


class HubError(VlrftError):
    """The hub refused an upload, or cannot be reached."""
