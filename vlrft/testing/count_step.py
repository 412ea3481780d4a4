"""One step of `vlrft.trainer.train.train` on a tiny Qwen2-VL, with what it sampled and what it cost."""

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
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Message, Sample, Task
from vlrft.selection.collect import collect
from vlrft.testing.work_meter import Meter, Work
from vlrft.trainer.run import Run
from vlrft.trainer.setup import open_run
from vlrft.trainer.train import train
from vlrft.trainer.update import update

SIDES = (112, 140, 84, 168)  # pixels of the images, in turn
ENDING = 6  # one token in so many ends an answer, where answers are to differ in length


@dataclass(frozen=True, kw_only=True)
class Options:
    groups: tuple[bool, ...] = (True,)  # whether its rewards differ
    same: bool = False  # one prompt for all


@dataclass(frozen=True, kw_only=True)
class Case:
    """A step. `budget`: tokens of a micro-batch; `ragged`: answers differ in length."""

    method: str | dict[str, Any] = "gpg"
    groups: tuple[bool, ...] = (True,)
    same: bool = False
    prompts: int | None = None  # a step; all unless given
    size: int = 8
    length: int = 12
    ragged: bool = False
    freeze: tuple[str, ...] = ()
    budget: int = 16384


@dataclass(frozen=True)
class Played:
    """A group as it was sampled: tokens of the prompt and of each answer."""

    prompt: int
    answers: tuple[int, ...]
    teaches: bool


@dataclass(frozen=True, kw_only=True)
class Counted:
    rollout: Work
    update: Work
    played: tuple[Played, ...]  # in the order of the engine's requests, every attempt


def load(split: str, options: Options) -> Sequence[Sample]:
    def sample(i: int, teaches: bool) -> Sample:
        n = 0 if options.same else i
        side = SIDES[n % len(SIDES)]
        pixels = np.random.default_rng([n, split == "test"]).integers(0, 255, (side, side, 3), np.uint8)  # fmt: skip
        ask = Message(role="user", content=(IMAGE, "Which digit is this?" + " Look." * n))
        tags = {"teaches": str(teaches)}
        return Sample(id=f"{split}/{i}", messages=(ask,), images=(Image.fromarray(pixels),), answer="7", tags=tags)  # fmt: skip

    return [sample(i, teaches) for i, teaches in enumerate(options.groups)]


def spread(completions: Sequence[str], sample: Sample) -> list[float]:
    """1, 0, 1, 0 … in a group that teaches, else 1 for all."""
    return [float(i % 2 == 0 or sample.tags["teaches"] == "False") for i in range(len(completions))]


task = Task(
    name="counts",
    doc="Groups whose rewards differ, and groups whose rewards do not.",
    options=Options,
    splits=("train", "test"),
    load=load,
    rewards={"choice": 1.0},
    graders={"strict": ("choice",)},
    gold=lambda sample: f"<answer>{sample.answer}</answer>",
)


def config(case: Case) -> dict[str, Any]:
    sizes = {"hidden_size": 64, "layers": 2, "intermediate_size": 96, "vocab_size": 300}
    vision = {"vision_width": 32, "vision_layers": 2, "vision_heads": 2}
    return {
        "task": {
            "name": f"{__name__}:task",
            "options": {"groups": list(case.groups), "same": case.same},
            "rewards": {f"{__name__}:spread": 1.0},
        },
        "policy": {"build": {**sizes, **vision}, "freeze": list(case.freeze)},
        "rollout": {"group_size": case.size, "max_tokens": case.length},
        "update": {"max_tokens_per_micro_batch": case.budget},
        "algorithm": case.method,
        "stages": [{"steps": 1, "prompts_per_step": case.prompts or len(case.groups)}],
        "eval": {"limit": 1},
        "self_check": False,  # its forward is no part of a step
    }


def count(case: Case, folder: Path) -> Counted:
    """Trains for one step in `folder`."""
    meter, played = Meter(), list[Played]()
    generate = HfEngine.generate
    calls: list[AbstractContextManager[None]] = []

    def opened(*given: Any, **named: Any) -> Run:
        run = open_run(*given, **named)
        chat = run.policy.chat
        chat.banned_ids |= chat.end_ids
        ordinary = (i for i in range(len(run.policy.banned)) if not run.policy.banned[i])
        chat.end_ids = frozenset(islice(ordinary, None, None, ENDING) if case.ragged else ())
        meter.watch(run.policy.model, chat.pad_id)
        calls.append(meter.calls(chat.image_processor))
        calls[0].__enter__()
        return run

    def sampled(own: HfEngine, requests: Any, sampling: Any) -> Any:
        found = generate(own, requests, sampling)
        if sampling.temperature:  # not the evaluation, which is greedy
            for request, pieces in zip(requests, found, strict=True):
                lengths = tuple(len(piece.ids) for piece in pieces)
                teaches = case.groups[int(request.id.split("/")[1])]
                played.append(Played(len(request.prompt.ids), lengths, teaches))
        return found

    def within(phase: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            with meter.during(phase):
                return work(*given, **named)

        return counted

    path = folder / "counts.yaml"
    path.write_text(yaml.safe_dump(config(case)))
    try:
        with (
            patch("vlrft.trainer.train.open_run", opened),
            patch.object(HfEngine, "generate", sampled),
            patch("vlrft.trainer.stage.collect", within("rollout", collect)),
            patch("vlrft.trainer.train.update", within("update", update)),
        ):
            train(load_config(str(path), ("prefetch_threads=0",)), out=folder / "run", overwrite=True)  # fmt: skip
    finally:
        for context in calls:
            context.__exit__(None, None, None)
    return Counted(rollout=meter.work["rollout"], update=meter.work.get("update", Work()), played=tuple(played))  # fmt: skip
