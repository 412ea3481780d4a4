"""Environments for tests of hosts: they count, and do what they are told, such as to die."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from vlrft.schema import IMAGE, Env, Message, Observation, Sample, Step, Task

SEEN: dict[str, int] = {}  # sample id -> environments of it that this process has made


def misbehave(how: str) -> None:
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "leave":
        sys.exit(3)
    if how == "hang":
        time.sleep(600)
    if how == "fork and die":  # the copy keeps the pipe open
        if os.fork():
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)
    if how == "raise":
        raise KeyError("no such thing")


class Told:
    """Shows what it was told and a picture of how often; the anchor is its process. `info`: how it starts and closes."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.said: list[str] = []
        SEEN[sample.id] = SEEN.get(sample.id, 0) + 1

    def start(self) -> Observation:
        misbehave(self.sample.info.get("start", ""))
        return self.show()

    def step(self, text: str) -> Step:
        misbehave(text)
        self.said.append(text)
        once = self.sample.info.get("once")
        if once is not None and Path(once).exists():
            misbehave(text.removeprefix("second time: "))
        if once is not None:
            Path(once).touch()
        if text == "no step":
            return self.show()  # type: ignore[return-value]
        scores: dict[str, Any] = {"turns": len(self.said)}
        if text == "unsendable":
            scores["lock"] = threading.Lock()
        if text == "end":
            return Step(reward=1.0, scores=scores)
        return Step(observation=self.show(), reward=len(text) / 3, scores=scores)

    def show(self) -> Observation:
        words = [self.sample.id, *self.said]
        if "random" in self.sample.info:
            words.append(os.urandom(8).hex())
        if "unordered" in self.sample.info:
            words += {f"word {k}" for k in range(20)}
        picture = Image.new("RGB", (16, 8), (len(self.said), 0, 7))
        message = Message(role="user", content=(IMAGE, "\n".join(words)))
        return Observation(messages=(message,), images=(picture,), anchor=os.getpid())

    def close(self) -> None:
        misbehave(self.sample.info.get("close", ""))


class Shared(Told):
    """Shows how many environments of its sample its process has made."""

    def show(self) -> Observation:
        return Observation(messages=(), shown=str(SEEN[self.sample.id]))


def task(env: type[Told] | None) -> Task:
    make: Any = env
    return Task(
        name="told",
        doc="",
        options=object,
        splits=(),
        load=lambda split, options: (),
        rewards={},
        graders={},
        gold=lambda sample: "",
        env=make,
    )


def sample(name: str, **info: Any) -> Sample:
    given: Mapping[str, Any] = info
    return Sample(id=name, messages=(), info=given)


def make(sample: Sample) -> Env:
    return Told(sample)


told, shared, single = task(Told), task(Shared), task(None)
