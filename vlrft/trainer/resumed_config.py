"""Refusal of changes between the config that a run started with and the one that it resumes with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlrft.config import Config
from vlrft.config.errors import shorten
from vlrft.config.load import stored_sections
from vlrft.schema.errors import ConfigError

SHOWN = 5  # settings in a message
MAY_CHANGE = (
    "device",
    "engine",
    "prefetch_threads",
    "log",
    "memory_check",
    "profile",
    "ranks",
    "save",
    "self_check",
)
"""Sections: settings of the machine and of the output files."""
MAY_CHANGE_WITHIN = {
    "policy": ("activation_checkpointing",),
    "rollout": ("engine", "max_cache_tokens", "max_rows"),
    "update": ("max_tokens_per_micro_batch",),
}
"""Section, of the run or of a stage -> settings that bound memory and change no result, and the rollout engine: it samples what
another one samples."""


def refuse_changes(old: Config, new: Config, where: Path) -> None:
    """Raises ConfigError, naming the settings, where a resumed run's config differs from the one that it started with in more
    than may change. `where`: the file of the latter."""
    settings = [dict(_settings(stored_sections(config))) for config in (old, new)]
    before, now = ({k: v for k, v in some.items() if not _may_change(k)} for some in settings)
    changed = [k for k in (*before, *(now.keys() - before.keys())) if before.get(k) != now.get(k)]
    if changed:
        listed = [
            f"{k} ({shorten(repr(before.get(k)))}, now {shorten(repr(now.get(k)))})"
            for k in changed
        ]
        more = len(listed) - SHOWN
        verb = "differs" if len(listed) == 1 else "differ"
        raise ConfigError(
            [
                f"--resume: {', '.join(listed[:SHOWN])}{f' and {more} more' if more > 0 else ''} {verb} from {where}; "
                "use that config, or another --out"
            ]
        )


def _settings(tree: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by its dotted name. Of an empty mapping or list, itself."""
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(tree, Mapping):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))
    if not items:
        yield at, tree
    for key, value in items:
        yield from _settings(value, f"{at}.{key}" if at else str(key))


def _may_change(name: str) -> bool:
    keys = name.split(".")
    if keys[0] == "stages":
        keys = keys[2:]
    elif keys[0] in MAY_CHANGE:
        return True
    return len(keys) > 1 and keys[1] in MAY_CHANGE_WITHIN.get(keys[0], ())
