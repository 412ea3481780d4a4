"""Keys of a config that have no effect on any of its stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from vlrft.config.errors import show
from vlrft.config.run import Config
from vlrft.config.task import TaskConfig
from vlrft.plugins.find import find_task
from vlrft.schema.errors import PluginError


@dataclass(frozen=True, kw_only=True)
class _Section:
    """A section of a config, as the run and its stages have it."""

    at: str  # its key
    value: Any
    idle: str  # why some of its keys have no effect here, and what to do; "": they have one


def find_idle_keys(config: Config) -> list[str]:
    """A line for each value that differs from its default and has no effect where it is. Stages inherit the sections of the
    run, so a value that has an effect on one of them is left alone on the others."""
    tasks = [("task", config.task)]
    tasks += [(f"stages.{i}.task", stage.task) for i, stage in enumerate(config.stages)]
    updates = [
        _Section(
            at="update" if stage.update == config.update else f"stages.{i}.update",
            value=stage.update,
            idle="with schedule: constant; leave it out, or use schedule: linear or cosine"
            if stage.update.schedule == "constant"
            else "",
        )
        for i, stage in enumerate(config.stages)
    ]
    examples = [
        _Section(
            at=f"{at}.examples",
            value=task.examples,
            idle="" if task.examples.count else "with count: 0; leave it out, or give a count",
        )
        for at, task in tasks
    ]
    envs = [
        _Section(at=f"{at}.env", value=task.env, idle=_without_environment(task))
        for at, task in tasks
    ]
    lines = [
        *_idle_values(updates, ["min_lr_ratio"]),
        *_idle_values(examples, ["split", "seed"]),
        *_idle_values(envs, [f.name for f in fields(config.task.env)]),
    ]
    return list(dict.fromkeys(lines))


def _idle_values(sections: Sequence[_Section], names: Sequence[str]) -> Iterator[str]:
    defaults = {f.name: f.default for f in fields(sections[0].value)}
    for name in names:
        assert defaults[name] is not MISSING
        values = [getattr(section.value, name) for section in sections]
        pairs = list(zip(sections, values, strict=True))
        used = [defaults[name], *(value for section, value in pairs if not section.idle)]
        seen: list[Any] = []
        for section, value in pairs:
            if value not in used and value not in seen:  # inherited: told once
                seen.append(value)
                yield f"{section.at}.{name}: {show(value)} has no effect {section.idle}"


def _without_environment(task: TaskConfig) -> str:
    """Why the settings of an environment have no effect on a task; "" for a task that has one, or may have by its options."""
    try:
        pack = find_task(task.name)
    except PluginError:  # a mistake of its own
        return ""
    if pack.env is not None or pack.configure is not None:
        return ""
    return f"on task {pack.name}, which has no environment; leave it out"
