"""A prompt that sampling would refuse is refused before the first step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from tests.conftest import Tiny
from tests.rollout.test_play import TASK
from vlrft.data import LazySamples, Row, RowSamples
from vlrft.data.row import Picture
from vlrft.policy.chat import Chat
from vlrft.rollout.long_prompts import refuse_long_prompts
from vlrft.rollout.task import LoadedTask
from vlrft.schema import IMAGE, DataError, Message, Sample
from vlrft.testing.small_policies import sample


@dataclass(frozen=True)
class Options:
    data: str | None = None


def make_sample(row: Row, options: Options) -> Sample:
    asked = Message(role="user", content=(IMAGE, row.question))
    return Sample(id=row.id, messages=(asked,))


def fail() -> bytes:
    raise AssertionError("no image may be opened")


def loaded(*questions: str) -> LoadedTask:
    picture = Picture(name="a.png", read=fail)
    rows = [
        Row(id=f"train/{k}", question=question, answer="", pictures=(picture,))
        for k, question in enumerate(questions)
    ]
    samples = RowSamples(rows, make_sample, Options())
    return LoadedTask(task=replace(TASK, env=None), samples=samples, rewards=())


def test_a_prompt_whose_text_is_too_long_is_refused_by_name(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    task = loaded("How many?", "7" * 300, "8" * 400)
    with pytest.raises(
        DataError, match=r"2 prompts are longer than .*=300, .*: the first is train/1 with 3\d\d "
    ):
        refuse_long_prompts(task, chat, 300)
    with pytest.raises(DataError, match=r"1 prompt is longer than .* train/2"):
        refuse_long_prompts(task, chat, 400)
    refuse_long_prompts(task, chat, 450)
    refuse_long_prompts(task, chat, 300, count=1)


def test_the_limit_is_that_of_sampling(tiny: Tiny) -> None:
    chat, task = tiny("qwen2_vl").chat, loaded("7" * 300)
    tokens = chat.count_text_tokens(task.samples.without_images().__next__().messages)  # type: ignore[attr-defined]
    refuse_long_prompts(task, chat, tokens)
    with pytest.raises(DataError, match=f"with {tokens} tokens"):
        refuse_long_prompts(task, chat, tokens - 1)


def test_few_texts_become_ids(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    count = Chat.count_text_tokens

    def counting(self: Chat, messages: tuple[Message, ...], *, name: str = "") -> int:
        counted.append(name)
        return count(self, messages, name=name)

    monkeypatch.setattr(Chat, "count_text_tokens", counting)
    refuse_long_prompts(loaded("7" * 100, "é" * 900, "8" * 1000), tiny("qwen2_vl").chat, 2000)
    assert counted == ["train/1"]


def test_other_tasks_are_not_looked_at(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    chat, task = tiny("qwen2").chat, loaded("7" * 300)
    made = LazySamples(lambda k: sample("7" * 300), range(3))
    counted: list[str] = []

    def counting(self: Chat, messages: Sequence[Message], name: str = "") -> int:
        counted.append(name)
        return 11

    monkeypatch.setattr(Chat, "count_text_tokens", counting)
    refuse_long_prompts(replace(task, samples=made), chat, 10)
    refuse_long_prompts(replace(task, task=TASK), chat, 10)
    assert counted == []
    with pytest.raises(DataError, match="with 11 tokens"):
        refuse_long_prompts(task, chat, 10)
