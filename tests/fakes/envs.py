"""Environments for tests of hosts: they echo the policy's texts, and misbehave on command, for example by dying."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from vlrft.schema import IMAGE, Env, Message, Observation, Sample, Step, Task

BROKEN_STEPS: dict[str, dict[str, Any]] = {
    "nan reward": {"reward": float("nan")},
    "text reward": {"reward": "1"},
    "huge reward": {"reward": 10**400},
    "nan score": {"scores": {"a": 1.0, "won": float("nan")}},
    "list score": {"scores": {"won": [1.0]}},
    "list of scores": {"scores": [1.0]},
    "text observation": {"observation": "text"},
    "text message": {"observation": Observation(messages=("text",))},  # type: ignore[arg-type]
    "no messages": {"observation": Observation(messages=None)},  # type: ignore[arg-type]
}
MADE: dict[str, int] = {}  # sample id -> environments of it that this process has made


def misbehave(command: str) -> None:
    if command == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if command == "leave":
        os._exit(3)
    if command == "exit":
        sys.exit(3)
    if command == "eat":
        _ = bytearray(b"x") * 2**30
        time.sleep(600)
    if command == "hang":
        time.sleep(600)
    if command == "fork and die":  # the copy keeps the pipe open
        if os.fork():
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    if command.startswith("await "):  # until the file exists
        while not Path(command.removeprefix("await ")).exists():
            time.sleep(0.005)
    if command == "raise":
        raise KeyError("no such thing")


class EchoEnv:
    """Shows all texts so far and a picture of their number; the anchor is its process id.

    The sample's `info` may hold commands for its start and its close; a text may be a command too.
    """

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.texts: list[str] = []
        MADE[sample.id] = MADE.get(sample.id, 0) + 1

    def start(self) -> Observation:
        misbehave(self.sample.info.get("start", ""))
        return self.show()

    def step(self, text: str) -> Step:
        misbehave(text)
        self.texts.append(text)
        once = self.sample.info.get("once")
        if once is not None and Path(once).exists():
            misbehave(text.removeprefix("second time: "))
        if once is not None:
            Path(once).touch()
        if text == "no step":
            return self.show()  # type: ignore[return-value]
        if text == "unsendable":
            return Step(observation=replace(self.show(), anchor=threading.Lock()))
        if text in BROKEN_STEPS:
            return Step(**{"observation": self.show(), **BROKEN_STEPS[text]})
        scores: dict[str, Any] = {"turns": len(self.texts)}
        if text == "end":
            return Step(reward=1.0, scores=scores)
        return Step(observation=self.show(), reward=len(text) / 3, scores=scores)

    def show(self) -> Observation:
        words = [self.sample.id, *self.texts]
        if "random" in self.sample.info:
            words.append(os.urandom(8).hex())
        if "unordered" in self.sample.info:
            words += {f"word {k}" for k in range(20)}
        picture = Image.new("RGB", (16, 8), (len(self.texts), 0, 7))
        message = Message(role="user", content=(IMAGE, "\n".join(words)))
        return Observation(messages=(message,), images=(picture,), anchor=os.getpid())

    def close(self) -> None:
        misbehave(self.sample.info.get("close", ""))


class CountingEnv(EchoEnv):
    """Shows how many environments of its sample its process has made."""

    def show(self) -> Observation:
        return Observation(messages=(), shown=str(MADE[self.sample.id]))


class TextEnv(EchoEnv):
    """Shows all texts so far, and no picture."""

    def show(self) -> Observation:
        text = "\n".join([self.sample.id, *self.texts])
        return Observation(messages=(Message(role="user", content=(text,)),), anchor=os.getpid())


def task(env: type[EchoEnv] | None) -> Task:
    make_env: Any = env
    return Task(
        name="echo",
        doc="",
        options=object,
        splits=(),
        load=lambda split, options: (),
        rewards={},
        graders={},
        gold=lambda sample: "",
        env=make_env,
    )


def sample(name: str, **info: Any) -> Sample:
    return Sample(id=name, messages=(), info=info)


def make_env(sample: Sample) -> Env:
    return EchoEnv(sample)


echo, texts = task(EchoEnv), task(TextEnv)
counting, single_turn = task(CountingEnv), task(None)
