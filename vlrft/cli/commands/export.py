"""vlrft export: a run's policy as a plain transformers folder with its processor, generation config and model card."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vlrft.schema.errors import ConfigError

if TYPE_CHECKING:
    from vlrft.reporting.model_card import CardFacts
    from vlrft.trainer.export import Exported, Source

PART = ".part"  # of a folder's name, while the export is written


def run(args: argparse.Namespace) -> None:
    from vlrft.trainer.export import find_source

    source = find_source(args.source, args.checkpoint)
    export(source, args.out, args)
    print(f"exported: {args.out}")


def export(source: Source, out: Path, args: argparse.Namespace) -> None:
    """Writes the model and its card into a new or empty folder `out`: aside, and moved when they are complete."""
    from transformers.utils import logging as transformers_logging

    from vlrft.reporting.model_card import write_card
    from vlrft.trainer.export import export_model

    transformers_logging.disable_progress_bar()
    draft = make_draft(source, out)
    try:
        exported = export_model(source, draft, dtype=args.dtype, base=args.base)
        write_card(draft, card_facts(source, exported, args, out.name), source.run, args.control)
        if draft.parent == out:
            for file in draft.iterdir():
                file.rename(out / file.name)
        else:
            draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if exported.quantization != "none":
        print(
            f"vlrft: the adapter was trained on {exported.base} in 4 bits ({exported.quantization}): the weights are "
            "those dequantized, with the adapter added, and not the base's own",
            file=sys.stderr,
        )
    if exported.kept is not None and exported.kept < 0.999:
        print(
            f"vlrft: the {exported.dtype} weights hold {100 * exported.kept:.1f} % of the adapter's update; "
            "--dtype float32 keeps all of it",
            file=sys.stderr,
        )


def make_draft(source: Source, out: Path) -> Path:
    """An empty folder to write into: beside a new `out`; inside one that is there and empty, which may be a mount point or a
    link. Raises ConfigError where the export could not end in `out`."""
    place, model = Path(os.path.realpath(out)), Path(os.path.realpath(source.model))
    if place == Path.cwd():
        raise ConfigError([f"{out} is the working directory; choose a new folder as --out"])
    if model.is_dir() and place.is_relative_to(model):
        raise ConfigError([f"{out} is inside the model that is exported; choose another --out"])
    if not out.is_dir() and os.path.lexists(out):
        raise ConfigError([f"{out} is there and no folder; choose a new folder as --out"])
    draft = out / PART if out.is_dir() else out.with_name(f".{out.name}{PART}")
    try:
        if out.is_dir() and any(path != draft for path in out.iterdir()):
            raise ConfigError([f"{out} is there and not empty; choose a new folder as --out"])
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
    except OSError as e:
        raise ConfigError(
            [f"{out}: cannot be written ({e.strerror}); choose another --out"]
        ) from None
    return draft


def card_facts(
    source: Source, exported: Exported, args: argparse.Namespace, name: str
) -> CardFacts:
    """The card's facts that the run does not know."""
    from vlrft.reporting.model_card import CardFacts

    return CardFacts(
        name=args.name or name,
        multimodal=exported.multimodal,
        dtype=exported.dtype,
        base=exported.base,
        license=args.license,
        kept=exported.kept,
        files=Path(source.model).name,
    )
