"""The text of a model card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from vlrft.data.atomic import write_atomically
from vlrft.reporting.html.run_data import RunData, read_run
from vlrft.reporting.model_card.facts import (
    base_model,
    datasets_used,
    is_hub_id,
    read_settings,
    read_stages,
    result_lines,
)
from vlrft.schema import DataError

README = "README.md"


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """Facts of an export that the files of its run do not hold."""

    name: str
    multimodal: bool
    dtype: str
    base: str | None = None
    """The model that an adapter was merged into, where no run is known."""
    license: str | None = None
    kept: float | None = None
    """The share of the adapters' update that the merged weights hold; None: there were no adapters."""
    files: str = ""
    """The checkpoint or adapter that was exported, without its folders."""


def write_card(folder: Path, facts: CardFacts, run: Path | None, control: Path | None) -> Path:
    """Writes FOLDER/README.md. `run`: the run that trained the model; `control`: one of the same config with permuted
    rewards. Raises DataError where these are no runs, and where `control` is no control of this run."""
    data = None if run is None else read_run(run)
    twin = None
    if control is not None:
        twin = read_run(control)
        _refuse_no_control(control, twin, data)
    path = folder / README
    write_atomically(path, card_text(facts, data, twin).encode())
    return path


def _refuse_no_control(folder: Path, control: RunData, run: RunData | None) -> None:
    settings = read_settings(control)
    if not settings.get("permute_rewards"):
        raise DataError(
            f"--control {folder}: no control, as its rewards were not permuted; give a run with permute_rewards=true"
        )
    task = settings["task"]["name"]
    own_task = task if run is None else read_settings(run)["task"]["name"]
    if task != own_task:
        raise DataError(
            f"--control {folder}: trained on task {task}, not on {own_task}; give a run of the same config"
        )


def card_text(facts: CardFacts, data: RunData | None, control: RunData | None) -> str:
    """The card, with the front matter that the hub reads."""
    pages = Environment(
        loader=PackageLoader("vlrft.reporting.model_card"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    settings = {} if data is None else read_settings(data)
    base = base_model(settings) or (facts.base if is_hub_id(facts.base) else None)
    stages = read_stages(settings)
    controls = (
        {} if control is None else {line.metric: line for line in result_lines(control.table)}
    )
    evaluations = [] if data is None else data.summary.get("evals", [])
    body = pages.get_template("card.md").render(
        facts=facts,
        base=base,
        settings=settings,
        stages=stages,
        methods={stage.algorithm: stage for stage in stages}.values(),
        results=[] if data is None else result_lines(data.table),
        split=evaluations[-1]["split"] if evaluations else "",
        controls=controls,
        is_control=bool(settings.get("permute_rewards")),
        data=data,
        versions={} if data is None else data.summary.get("versions", {}),
        samples={} if data is None else data.summary.get("data", {}),
        seconds=0 if data is None else data.summary.get("seconds", {}).get("total", 0),
    )
    return f"---\n{_front_matter(facts, data, base)}---\n\n{body}"


def _front_matter(facts: CardFacts, data: RunData | None, base: str | None) -> str:
    settings = {} if data is None else read_settings(data)
    stages = read_stages(settings)
    content = {
        "library_name": "transformers",
        "pipeline_tag": "image-text-to-text" if facts.multimodal else "text-generation",
        "license": facts.license,
        "base_model": base,
        "base_model_relation": "finetune" if base else None,
        "datasets": datasets_used(settings) or None,
        "tags": ["vlrft", "reinforcement-learning", *dict.fromkeys(s.algorithm for s in stages)],
        "model-index": _model_index(facts, data),
    }
    stated = {key: value for key, value in content.items() if value is not None}
    return yaml.safe_dump(stated, sort_keys=False, allow_unicode=True)


def _model_index(facts: CardFacts, data: RunData | None) -> list[object] | None:
    """The last evaluation as the hub's model index."""
    if data is None or not data.table:
        return None
    task, split = data.summary.get("task", ""), data.summary["evals"][-1]["split"]
    last = {line.metric: line for line in data.table}
    metrics = [
        {"type": "accuracy" if line.share else "score", "name": name, "value": round(line.score, 6)}
        for name, line in last.items()
    ]
    result = {
        "task": {"type": "image-text-to-text" if facts.multimodal else "text-generation"},
        "dataset": {"type": task, "name": task, "split": split},
        "metrics": metrics,
    }
    return [{"name": facts.name, "results": [result]}]
