"""`vlrft.score`: stored outputs of any model, graded without running a model; `vlrft score` uses the same functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlrft.config import TaskConfig
from vlrft.config.configured import configured_task
from vlrft.config.errors import shorten
from vlrft.config.load import task_config
from vlrft.config.overrides import overrides_of
from vlrft.config.unread import refuse_unread
from vlrft.evaluation.evaluate import Evaluation, compute_metrics
from vlrft.evaluation.outputs.columns import Keys, OutputRow
from vlrft.evaluation.outputs.plain import plain_format
from vlrft.evaluation.outputs.read import Outputs, read_outputs
from vlrft.evaluation.result_files import missing_metrics
from vlrft.evaluation.score import complete, grade_outputs, match_samples
from vlrft.evaluation.unreadable import unreadable_lines
from vlrft.rollout.task import load_task
from vlrft.schema import DataError, Record, Task
from vlrft.schema.errors import ConfigError, OutputsError
from vlrft.trainer.api.configs import override_texts
from vlrft.trainer.api.unread_rewards import refuse_unread_rewards, reward_overrides

Predictions = str | Path | Mapping[str, str] | Iterable[Mapping[str, Any]]
UNREAD = {"env": "", "examples": ""}  # sections of a task that only rollouts read
READER = "outputs that are there already"
GIVEN = "predictions"  # the name in messages of outputs that are not a file's


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """The samples that outputs are matched with. `load`: even where each row states its gold answer."""

    task: TaskConfig
    split: str = "test"
    load: bool = False
    untagged: bool = False


def score(
    task: str,
    predictions: Predictions,
    *,
    data: str | Path | None = None,
    split: str = "test",
    id_key: str | None = None,
    output_key: str | None = None,
    answer_key: str | None = None,
    untagged: bool = False,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    progress: bool = True,
) -> Evaluation:
    """The grades of outputs that any model wrote, as `vlrft score` gives them.

        evaluation = vlrft.score("counting", "predictions.jsonl")
        evaluation = vlrft.score("counting", [{"id": 1, "output": "<answer>7</answer>", "answer": "7"}])
        print(evaluation.scores["accuracy"])

    `predictions`: a file, in any form that `vlrft score` reads; or rows with `id`, `output` and, where the samples are not
    loaded, `answer`; or a mapping id -> output. `data`: the task's data, whose gold answers count before those of rows. The keys name
    columns that cannot be found by their names. `untagged`: an output without answer tags is the answer as a whole.

    Raises ConfigError for wrong arguments, OutputsError for rows that cannot be read or graded.
    """
    keys = Keys(id=id_key, output=output_key, answer=answer_key)
    section = score_config(task, override_texts(overrides), data)
    settings = ScoreSettings(task=section, split=split, load=names_data(section), untagged=untagged)
    if isinstance(predictions, str | Path):
        outputs, where = read_outputs(Path(predictions), keys), str(predictions)
    else:
        outputs, where = _outputs_of(predictions, keys), GIVEN
    say = _say if progress else str
    evaluation = grade_all(settings, outputs, where, say=say)
    for line in unreadable_lines(evaluation.records):
        say(line)
    return evaluation


def score_config(task: str, overrides: Sequence[str], data: str | Path | None) -> TaskConfig:
    """The task's config, with the place of its data. Raises ConfigError, also for an override that grading does not read."""
    refuse_unread(overrides, UNREAD, READER)
    section = task_config(task, [*overrides, *overrides_of({"options.data": data})])
    refuse_unread_rewards(reward_overrides(overrides), section, READER)
    return section


def refuse_unknown_split(task: Task, split: str) -> None:
    """Raises ConfigError for a split that the task does not have."""
    if split not in task.splits:
        raise ConfigError(
            [f"split: task {task.name} has no split {split!r}; it has {', '.join(task.splits)}"]
        )


def names_data(section: TaskConfig) -> bool:
    """Whether the task's options name its data, whose gold answers are then those that count."""
    return section.options.get("data") is not None


def grade_all(
    settings: ScoreSettings, outputs: Outputs, where: str, *, say: Callable[[str], object]
) -> Evaluation:
    """Matches outputs with samples, grades them and computes the metrics. `where`: their file, for messages.

    Raises ConfigError, DataError and OutputsError.
    """
    task, _ = configured_task(settings.task)
    refuse_unknown_split(task, settings.split)
    stated = all(row.answer is not None for row in outputs.rows)
    try:
        loaded = load_task(settings.task, settings.split) if settings.load or not stated else None
    except DataError as e:
        if settings.load:
            raise
        raise OutputsError(
            f"{where}: has no gold answer for each output: name their column with --answer-key (answer_key in "
            f"Python), or give the samples with --data (data); {e}"
        ) from e
    matched = match_samples(outputs.rows, loaded, settings.split, where)
    for note in matched.notes:
        say(f"vlrft: {note}")
    records: Sequence[Record] = tuple(
        grade_outputs(task, outputs.rows, matched.samples, untagged=settings.untagged)
    )
    if loaded is not None:
        records = complete(loaded, records)
    evaluation = compute_metrics(task, records)
    for line in missing_metrics(task, evaluation):
        say(f"vlrft: {line}")
    return evaluation


def _outputs_of(
    predictions: Mapping[str, str] | Iterable[Mapping[str, Any]], keys: Keys
) -> Outputs:
    """Rows that are given as Python objects. Raises ConfigError for their columns, OutputsError for a row."""
    if isinstance(predictions, Mapping):
        predictions = [{"id": name, "output": text} for name, text in predictions.items()]
    allowed = "allowed: a path, rows with id, output and answer, or a mapping id -> output"
    if not isinstance(predictions, Iterable):
        raise ConfigError([f"{GIVEN}: {type(predictions).__name__}; {allowed}"])
    rows = list(predictions)
    for row in rows:
        if not isinstance(row, Mapping):
            raise ConfigError([f"{GIVEN}: an item is {shorten(repr(row))}, not a row; {allowed}"])
    if not rows:
        raise OutputsError(f"{GIVEN}: no rows")
    form = plain_format(keys, list(dict.fromkeys(name for row in rows for name in row)))
    read: list[OutputRow] = []
    for number, row in enumerate(rows):
        try:
            read += form.read(row, number)
        except KeyError as e:
            raise OutputsError(f"{GIVEN}, row {number + 1}: no {e.args[0]!r}") from None
        except ValueError as e:
            raise OutputsError(f"{GIVEN}, row {number + 1}: {e}") from None
    return Outputs(form=form.name, rows=tuple(read))


def _say(line: str) -> None:
    print(line, file=sys.stderr)
