"""Facts of a run that its model card states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vlrft.algorithms.find import find_algorithm
from vlrft.reporting.html.run_data import MetricLine, RunData
from vlrft.schema.errors import VlrftError
from vlrft.schema.pluralize import pluralize

Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StageLine:
    """A stage of the run: its settings, and the method with its source."""

    name: str
    algorithm: str
    paper: str
    doc: str
    length: str
    prompts: int
    group: int
    lr: float


@dataclass(frozen=True, kw_only=True)
class ResultLine:
    """One metric: before the first stage and after the last, with their 95 % intervals."""

    metric: str
    n: int
    before: str
    after: str
    paper: str


def read_settings(data: RunData) -> Settings:
    """The run's config as it was resolved."""
    settings: Settings = yaml.safe_load(data.config) or {}
    return settings


def read_stages(settings: Settings) -> list[StageLine]:
    """The stages of a resolved config. A method that is not here any more, such as a file of the user's, has no source."""
    lines: list[StageLine] = []
    for stage in settings.get("stages", ()):
        choice = stage.get("algorithm")
        name = choice if isinstance(choice, str) else str((choice or {}).get("name"))
        try:
            method = find_algorithm(choice)
            paper, doc = method.paper, method.doc
        except VlrftError:
            paper, doc = "", ""
        sampled = stage.get("rollout", {})
        length = (
            pluralize(stage["steps"], "step")
            if stage.get("steps")
            else f"{stage.get('epochs')} epochs"
        )
        lines.append(
            StageLine(
                name=stage.get("name") or name,
                algorithm=name,
                paper=paper,
                doc=doc,
                length=length,
                prompts=stage.get("prompts_per_step", 0),
                group=sampled.get("group_size", 0),
                lr=stage.get("update", {}).get("lr", 0.0),
            )
        )
    return lines


def result_lines(table: Sequence[MetricLine]) -> list[ResultLine]:
    """Each metric before the first stage and after the last."""
    lines: list[ResultLine] = []
    for metric in dict.fromkeys(line.metric for line in table):
        of_metric = [line for line in table if line.metric == metric]
        first, last = of_metric[0], of_metric[-1]
        lines.append(
            ResultLine(
                metric=metric,
                n=last.n,
                before=_with_interval(first) if first is not last else "-",
                after=_with_interval(last),
                paper="" if last.paper is None else f"{last.paper:g}",
            )
        )
    return lines


def _with_interval(line: MetricLine) -> str:
    if line.ci is None:
        return line.format(line.score)
    low, high = (line.format(value) for value in line.ci)
    return f"{line.format(line.score)} [{low}, {high}]"


def base_model(settings: Settings) -> str | None:
    """The hub id of the model that was trained; None for a folder and for a model that was built."""
    policy = settings.get("policy") or {}
    source = policy.get("model")
    return source if is_hub_id(source) else None


def datasets_used(settings: Settings) -> list[str]:
    """The hub ids that the options of the tasks name as their data."""
    tasks = [settings.get("task"), *(s.get("task") for s in settings.get("stages", ()))]
    places = [str(((task or {}).get("options") or {}).get("data")) for task in tasks]
    return list(dict.fromkeys(place for place in places if is_hub_id(place)))


def is_hub_id(source: object) -> bool:
    """Whether a text is `owner/name` and no path that is here."""
    if not isinstance(source, str) or source.count("/") != 1 or source.startswith((".", "/", "~")):
        return False
    return not Path(source).exists()
