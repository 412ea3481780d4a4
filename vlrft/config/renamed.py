"""The one table of renamed config keys and metrics: old name -> new name.

A run's own folder (its `config.yaml`, `metrics.jsonl` and the like) may have been written before a rename; there old
names are replaced when the file is read, so that old runs resume, are evaluated and are reported. In a config that
people write, and on the command line, an old key is an error that states the new one.

To rename a key or a metric, rename it in the code and add one line here. Entries are never removed while runs with the
old name are around, and never chained: when a name changes twice, both old names point at the newest one.
"""

from __future__ import annotations

from collections.abc import Mapping

CONFIG_KEYS: Mapping[str, str] = {
    "image_threads": "prefetch_threads",
    "log.rollouts_per_step": "log.groups_per_step",
    "ranks.silent": "ranks.heartbeat_timeout",
    "ranks.stuck": "ranks.step_timeout",
}
"""Dotted paths from the root of a config. A key below `task`, `rollout` or `update` is renamed in every stage, too."""

METRICS: Mapping[str, str] = {}
"""Names of metrics as they appear in `metrics.jsonl`, such as `groups/mixed`."""
