"""A task pack as a config sets it up: its options read, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from vlrft.config.task import TaskConfig
from vlrft.plugins.attribution import attributed
from vlrft.plugins.find import find_reward, find_task
from vlrft.schema import Task

STRICT = "strict"


def configured_task(config: TaskConfig) -> tuple[Task, Any]:
    """The task that a config names, as its options and rewards make it, and its options. Raises ConfigError, PluginError, and
    DataError where what follows from the options is in data that cannot be read."""
    task = find_task(config.name)
    options = TypeAdapter(task.options).validate_python(dict(config.options))
    if task.configure is not None:
        with attributed(f"task {task.name}: its `configure`"):
            task = task.configure(task, options)
    if not task.graders.get(STRICT):
        own = tuple(n for n in config.rewards or () if not hasattr(find_reward(n), "no_grader"))
        task = replace(task, graders={**task.graders, STRICT: own})
    return task, options
