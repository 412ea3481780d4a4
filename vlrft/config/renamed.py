"""The one table of renamed config keys and metrics: old name -> new name.

A run's own folder (its `config.yaml`, `metrics.jsonl` and the like) may have been written before a rename; there old
names are replaced when the file is read, so that old runs resume, are evaluated and are reported. In a config that
people write, and on the command line, an old key is an error that states the new one.

To rename a key or a metric, rename it in the code and add one line here. Entries are never removed while runs with the
old name are around, and never chained: when a name changes twice, both old names point at the newest one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG_KEYS: Mapping[str, str] = {
    "image_threads": "prefetch_threads",
    "log.rollouts_per_step": "log.groups_per_step",
    "ranks.silent": "ranks.heartbeat_timeout",
    "ranks.stuck": "ranks.step_timeout",
}
"""Dotted paths from the root of a config. A key below `task`, `rollout` or `update` is renamed in every stage, too."""

METRICS: Mapping[str, str] = {
    "env/cut": "env/truncated",
    "play/": "episode/",
}
"""Names of metrics as they appear in `metrics.jsonl`, such as `groups/valid_share`; one that ends in `/` is a prefix."""

RUN_FILES = (
    "metrics.jsonl",
    "summary.json",
    "checkpoints",
)  # one of them is in the folder of any run
STAGE = re.compile(r"^stages\.\d+\.")


def in_run_folder(config: Path) -> bool:
    """Whether the file is the resolved config that a run has written into its folder."""
    return config.name == "config.yaml" and any((config.parent / f).exists() for f in RUN_FILES)


def new_key(key: str) -> str | None:
    """The new name of a dotted config key, below `stages.N` too; None for a key that was not renamed."""
    stage = STAGE.match(key)
    prefix = stage[0] if stage else ""
    renamed = CONFIG_KEYS.get(key.removeprefix(prefix))
    return None if renamed is None else prefix + renamed


def migrate_config(tree: dict[str, Any]) -> None:
    """Renames the old keys of a config's tree in place. A key that is there by its new name already is kept."""
    stages = tree.get("stages")
    for section in [tree, *(stages if isinstance(stages, list) else [])]:
        for old, new in CONFIG_KEYS.items():
            *parents, key = old.split(".")
            node = _descend(section, parents)
            if isinstance(node, dict) and key in node:
                *parents, key_now = new.split(".")
                value = node.pop(key)
                _descend(section, parents, create=True).setdefault(key_now, value)


def migrate_metrics(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `metrics.jsonl` with its old names replaced, in the same order."""
    return {_new_metric(name): value for name, value in row.items()}


def _new_metric(name: str) -> str:
    for old, new in METRICS.items():
        if name == old or (old.endswith("/") and name.startswith(old)):
            return new + name.removeprefix(old)
    return name


def _descend(node: Any, keys: list[str], *, create: bool = False) -> Any:
    """The section below `keys`; None where there is none, or a new one with `create`."""
    for key in keys:
        if not isinstance(node, dict):
            return None
        node = node.setdefault(key, {}) if create else node.get(key)
    return node
