"""One step of `vlrft.trainer.train.train` on a tiny Qwen2-VL: the groups that it sampled, and its work in exact counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import yaml
from PIL import Image

from vlrft.config.load import load_config
from vlrft.memory.micro_batches import image_tokens
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Message, Sample, Task
from vlrft.selection.collect import collect
from vlrft.testing.work_meter import Work, WorkMeter
from vlrft.trainer.memory_plan.model_shapes import policy_shape
from vlrft.trainer.run import Run
from vlrft.trainer.setup import open_run
from vlrft.trainer.train import train
from vlrft.trainer.update import update

SIDES = (112, 140, 84, 168)  # pixels of the images, in turn
END_EVERY = 6  # ragged answers: every 6th ordinary token ends an answer


@dataclass(frozen=True, kw_only=True)
class Options:
    groups: tuple[bool, ...] = (True,)  # whether the rewards of each group differ
    same: bool = False  # all groups have the same prompt


@dataclass(frozen=True, kw_only=True)
class StepCase:
    """The settings of a step."""

    algorithm: str | dict[str, Any] = "gpg"
    groups: tuple[bool, ...] = (True,)  # whether the rewards of each group differ
    same: bool = False  # all groups have the same prompt
    prompts: int | None = None  # prompts per step; None: one per group
    size: int = 8  # rollouts in a group
    length: int = 12  # maximum tokens of an answer
    ragged: bool = False  # answers differ in length
    freeze: tuple[str, ...] = ()
    budget: int = 16384  # tokens of a micro-batch


@dataclass(frozen=True)
class SampledGroup:
    """Numbers of tokens of a sampled group's prompt and of each of its answers."""

    prompt: int
    answers: tuple[int, ...]
    signal: bool  # its rewards differ
    images: int = 0  # tokens as which the prompt's images count in a micro-batch's budget


@dataclass(frozen=True, kw_only=True)
class StepCounts:
    """Work of one step, and its groups in the order of the engine's requests, over all attempts."""

    rollout: Work
    update: Work
    groups: tuple[SampledGroup, ...]


def load(split: str, options: Options) -> Sequence[Sample]:
    def sample(i: int, signal: bool) -> Sample:
        n = 0 if options.same else i
        side = SIDES[n % len(SIDES)]
        pixels = np.random.default_rng([n, split == "test"]).integers(0, 255, (side, side, 3), np.uint8)  # fmt: skip
        message = Message(role="user", content=(IMAGE, "Which digit is this?" + " Look." * n))
        tags = {"signal": str(signal)}
        return Sample(id=f"{split}/{i}", messages=(message,), images=(Image.fromarray(pixels),), answer="7", tags=tags)  # fmt: skip

    return [sample(i, signal) for i, signal in enumerate(options.groups)]


def alternate(completions: Sequence[str], sample: Sample) -> list[float]:
    """Rewards 1, 0, 1, 0 … in a group with signal; 1 for every rollout of any other."""
    return [float(i % 2 == 0 or sample.tags["signal"] == "False") for i in range(len(completions))]


task = Task(
    name="counts",
    doc="Groups whose rewards differ, and groups whose rewards are equal.",
    options=Options,
    splits=("train", "test"),
    load=load,
    rewards={"choice": 1.0},
    graders={"strict": ("choice",)},
    gold=lambda sample: f"<answer>{sample.answer}</answer>",
)


def make_config(case: StepCase) -> dict[str, Any]:
    sizes = {"hidden_size": 64, "layers": 2, "intermediate_size": 96, "vocab_size": 300}
    vision = {"vision_width": 32, "vision_layers": 2, "vision_heads": 2}
    return {
        "task": {
            "name": f"{__name__}:task",
            "options": {"groups": list(case.groups), "same": case.same},
            "rewards": {f"{__name__}:alternate": 1.0},
        },
        "policy": {"build": {**sizes, **vision}, "freeze": list(case.freeze)},
        "rollout": {"group_size": case.size, "max_tokens": case.length},
        "update": {"max_tokens_per_micro_batch": case.budget},
        "algorithm": case.algorithm,
        "stages": [{"steps": 1, "prompts_per_step": case.prompts or len(case.groups)}],
        "eval": {"limit": 1},
        "self_check": False,  # its forward is no part of a step
    }


def count_step(case: StepCase, folder: Path) -> StepCounts:
    """Train for one step in `folder` and count its work."""
    meter, groups = WorkMeter(), list[SampledGroup]()
    generate = HfEngine.generate
    contexts: list[AbstractContextManager[None]] = []

    def open_counted(*args: Any, **kwargs: Any) -> Run:
        run = open_run(*args, **kwargs)
        chat = run.policy.chat
        chat.banned_ids |= chat.end_ids
        ordinary = (i for i in range(len(run.policy.banned)) if not run.policy.banned[i])
        chat.end_ids = frozenset(islice(ordinary, None, None, END_EVERY) if case.ragged else ())
        meter.watch(run.policy.model, chat.pad_id)
        contexts.append(meter.count_calls(chat.image_processor))
        contexts[0].__enter__()
        return run

    def generate_counted(engine: HfEngine, requests: Any, sampling: Any) -> Any:
        answers = generate(engine, requests, sampling)
        if sampling.temperature:  # the evaluation, which is greedy, is not counted
            for request, pieces in zip(requests, answers, strict=True):
                lengths = tuple(len(piece.ids) for piece in pieces)
                signal = case.groups[int(request.id.split("/")[1])]
                shape = policy_shape(engine.policy)
                images = sum(image_tokens(shape, len(i.values)) for i in request.prompt.images)
                groups.append(SampledGroup(len(request.prompt.ids), lengths, signal, images))
        return answers

    def count_during(phase: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            with meter.during(phase):
                return work(*args, **kwargs)

        return counted

    path = folder / "counts.yaml"
    path.write_text(yaml.safe_dump(make_config(case)))
    try:
        with (
            patch("vlrft.trainer.train.open_run", open_counted),
            patch.object(HfEngine, "generate", generate_counted),
            patch("vlrft.trainer.stage.collect", count_during("rollout", collect)),
            patch("vlrft.trainer.train.update", count_during("update", update)),
        ):
            train(load_config(str(path), ("prefetch_threads=0",)), out=folder / "run", overwrite=True)  # fmt: skip
    finally:
        for context in contexts:
            context.__exit__(None, None, None)
    return StepCounts(rollout=meter.work["rollout"], update=meter.work.get("update", Work()), groups=tuple(groups))  # fmt: skip
