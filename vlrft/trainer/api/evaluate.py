"""`vlrft.evaluate`: a model answers a split and is graded; and its parts, which `vlrft eval` uses, too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlrft.config import Config, EvalConfig, PolicyConfig, RolloutConfig, TaskConfig
from vlrft.config.load import eval_config
from vlrft.config.overrides import overrides_of
from vlrft.config.unread import refuse_unread
from vlrft.evaluation.evaluate import Evaluation, chunk_size, compute_metrics, grade_samples
from vlrft.evaluation.result_files import missing_metrics
from vlrft.evaluation.unreadable import unreadable_lines
from vlrft.reporting.run_result import RunResult
from vlrft.rollout.task import load_task
from vlrft.schema import Group, Record, Sample
from vlrft.schema.errors import ConfigError, NoRowsError
from vlrft.schema.pluralize import pluralize
from vlrft.selection.prefetch import prefetching
from vlrft.trainer.api.configs import override_texts, read_config
from vlrft.trainer.api.generate import find_model
from vlrft.trainer.api.quiet import quiet_transformers
from vlrft.trainer.api.unread_rewards import refuse_unread_rewards, reward_overrides

if TYPE_CHECKING:
    from vlrft.policy.chat import Chat
    from vlrft.policy.policy import Policy

Say = Callable[[str], object]
MODEL = "--model, in Python the model, which is evaluated as it is"
UNREAD = {  # settings of training in the sections that an evaluation reads -> what is given in their place
    "rollout.group_size": "eval.answers",
    "rollout.temperature": "eval.temperature",
    "rollout.top_p": "eval.top_p",
    "rollout.top_k": "",
    "rollout.ahead": "",
    "eval.every": "",
    "env.invalid_penalty": "",
    "policy.model": MODEL,
    "policy.build": MODEL,
    "policy.lora": "",
    "policy.freeze": "",
    "policy.activation_checkpointing": "",
}


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """All that decides the answers of an evaluation, and their grades."""

    task: TaskConfig
    policy: PolicyConfig
    rollout: RolloutConfig
    decoding: EvalConfig


def settings_of_task(task: str, model: str, overrides: Sequence[str]) -> EvaluationSettings:
    """The settings for a task by name. Raises ConfigError, also for an override that an evaluation does not read."""
    refuse_unread(overrides, UNREAD, "an evaluation")
    section, policy, rollout, decoding = eval_config(task, model, overrides)
    refuse_unread_rewards(reward_overrides(overrides), section, "an evaluation", scores=True)
    return EvaluationSettings(task=section, policy=policy, rollout=rollout, decoding=decoding)


def settings_of_config(config: Config, model: str) -> EvaluationSettings:
    """The settings of a run's config, for a model as it is: nothing is built, frozen or adapted."""
    policy = replace(config.policy, model=model, build=None, lora=None, adapter=None, freeze=())
    return EvaluationSettings(
        task=config.task, policy=policy, rollout=config.rollout, decoding=config.eval
    )


def evaluate(
    model: str | Path | RunResult | Policy,
    task: str | Config,
    *,
    split: str | None = None,
    limit: int | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    progress: bool = True,
) -> Evaluation:
    """A model's answers to a split of a task, graded, as `vlrft eval` does it.

        evaluation = vlrft.evaluate("runs/quickstart/checkpoints/last", "digits", limit=100)
        print(evaluation.scores["classify"])  # 83/100  83.00 [74.45, 89.11]
        evaluation.records[0].output

    `model`: a folder, a hub id, a run's folder or its result (the newest checkpoint), or what `vlrft.load_policy` returned.
    `task`: its name, `package.module:task` or `./file.py:task`; or a Config, whose sections task, rollout and eval are used.
    `split`, `limit`: another split, and its first samples only. `overrides`: `{"options.k": 4, "eval.answers": 8}`, with a
    task's name. `progress`: print the number of answers on stderr.

    Raises ConfigError for wrong arguments and for a model that cannot be loaded, DataError for data that cannot be used.
    """
    policy = None
    if isinstance(model, str | Path | RunResult):
        model = find_model(model)
    else:
        policy, model = model, "given"
    chosen = overrides_of({"eval.split": split, "eval.limit": limit})
    if isinstance(task, Config):
        if overrides:
            raise ConfigError(["overrides: give them to vlrft.load_config, with a Config as task"])
        settings = settings_of_config(read_config(task, chosen), str(model))
    else:
        items = [*override_texts(overrides), *chosen]
        if policy is not None:
            refuse_unread(items, {"policy": "to load_policy"}, "a policy that is loaded already")
        settings = settings_of_task(task, str(model), items)
    say = _say if progress else str
    with quiet_transformers():
        evaluation = answer_split(settings, say=say, policy=policy)
    for line in unreadable_lines(evaluation.records):
        say(line)
    return evaluation


def answer_split(
    settings: EvaluationSettings,
    *,
    say: Say,
    policy: Policy | None = None,
    begin: Callable[[Sequence[Sample]], list[Record]] = lambda samples: [],
    store: Callable[[Sequence[Record]], object] = len,
) -> Evaluation:
    """Answers and grades the split, and computes its metrics. `policy`: loaded already; None: the settings' own.

    `begin` is called with the samples of the whole split when all is loaded, and returns the records of the first ones, where
    they are done already; `store` gets new records as they come. Raises ConfigError and DataError.
    """
    from vlrft.data.clips import ClipTimes
    from vlrft.distributed.device import pick_device
    from vlrft.evaluation.rollouts import play_evaluation
    from vlrft.policy.checkpoint_adapter import exact_policy
    from vlrft.policy.load import load_policy, vision_warning
    from vlrft.rollout.bad_rows import check_gold_answers, check_pictures, check_prompts
    from vlrft.rollout.engines import EnginePlace, find_rollout_engine, running_engine
    from vlrft.rollout.video_check import refuse_videos

    rollout, decoding = settings.rollout, settings.decoding
    loaded = load_task(settings.task, decoding.split)
    times = ClipTimes()
    loaded = check_pictures(check_gold_answers(loaded), times)
    if not len(loaded.head(decoding.limit)):
        raise NoRowsError(
            f"task {loaded.task.name}: no samples to evaluate; check the split and the limit"
        )
    refuse_videos(find_rollout_engine(rollout.engine), loaded, "the evaluation")
    if policy is None:
        chosen, line = exact_policy(settings.policy)
        if line:
            say(f"vlrft: {line}")
        policy = load_policy(chosen, device=pick_device("auto"))
    chat = policy.chat
    loaded.refuse_other_resize(chat.resize, chat.max_prompt_pixels)
    warnings = (vision_warning(settings.policy, chat), loaded.box_warning(policy.box_unit))
    for warning in filter(None, warnings):
        say(f"vlrft: {warning}")
    loaded = check_prompts(
        loaded,
        chat,
        rollout.max_prompt_tokens,
        decoding.limit,
        max_images=rollout.max_images,
        times=times,
    )
    del times  # of every video: evaluating has no use for them
    samples = loaded.head(decoding.limit)
    records = begin(loaded.samples)
    if records:
        say(f"vlrft: resuming, {pluralize(len(records), 'answer')} already done")
    total = len(samples) * decoding.answers
    done, size = range(len(records) // decoding.answers), chunk_size(rollout, decoding)
    ahead = prefetching(samples, chat.process, prefetch_threads(chat))
    place = EnginePlace(
        say=lambda line: say(f"vlrft: {line}"),
        context=rollout.max_prompt_tokens + (decoding.max_tokens or 0),
    )
    running = running_engine(rollout, policy, place)
    with policy.float32_products(), ahead as prepared, running as engine:

        def play(chunk: Sequence[Sample]) -> list[Group]:
            return play_evaluation(loaded, chunk, engine, chat, rollout, decoding)

        for chunk in grade_samples(loaded, prepared, play, size, done):
            records += chunk
            store(chunk)
            say(f"{len(records)} of {total} answers")
    evaluation = compute_metrics(loaded.task, records)
    for line in missing_metrics(loaded.task, evaluation):
        say(f"vlrft: {line}")
    return evaluation


def prefetch_threads(chat: Chat) -> int:
    """Threads that process images ahead, as many as a run has by default; none for a policy without images."""
    return Config.prefetch_threads if chat.image_processor is not None else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr)
