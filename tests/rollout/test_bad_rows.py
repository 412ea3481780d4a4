"""Rows that a run cannot use are found before the first step: prompts that sampling would refuse, pictures that are missing."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.conftest import Tiny
from tests.rollout.test_play import TASK
from vlrft.data import LazySamples, Row, RowSamples
from vlrft.data.row import Picture
from vlrft.policy.chat import Chat
from vlrft.rollout.bad_rows import check_pictures, check_prompts
from vlrft.rollout.engines import Limits, Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.episode import Episode
from vlrft.rollout.task import LoadedTask
from vlrft.rollout.turns import exceeds_limit
from vlrft.schema import IMAGE, DataError, Message, Sample
from vlrft.testing.small_policies import ask, noise_image, sample


@dataclass(frozen=True)
class Options:
    data: str | None = None


def make_sample(row: Row, options: Options) -> Sample:
    asked = Message(role="user", content=(IMAGE, row.question))
    return Sample(id=row.id, messages=(asked,))


def one_or_more(row: Row, options: Options) -> Sample:
    asked = Message(role="user", content=(*[IMAGE] * len(row.pictures), row.question))
    return Sample(id=row.id, messages=(asked,))


def png(width: int, height: int) -> Callable[[], bytes]:
    def encode() -> bytes:
        content = io.BytesIO()
        noise_image(width, height).save(content, "PNG")
        return content.getvalue()

    return encode


SMALL = png(56, 56)


def fail() -> bytes:
    raise AssertionError("no image may be opened")


def loaded(*questions: str, read: Callable[[], bytes] = SMALL, **settings: Any) -> LoadedTask:
    picture = Picture(name="a.png", read=read)
    rows = [
        Row(id=f"train/{k}", question=question, answer="", pictures=(picture,))
        for k, question in enumerate(questions)
    ]
    samples = RowSamples(rows, make_sample, Options())
    return LoadedTask(task=replace(TASK, env=None), samples=samples, rewards=(), **settings)


def test_a_prompt_whose_text_is_too_long_is_refused_by_name(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    task = loaded("How many?", "7" * 300, "8" * 400, read=png(28, 28))
    with pytest.raises(
        DataError, match=r"2 prompts are longer than .*=300: the first is train/1 with 3\d\d tokens"
    ) as caught:
        check_prompts(task, chat, 300)
    assert len(caught.value.defects) == 2
    with pytest.raises(DataError, match=r"1 prompt is longer than .* train/2"):
        check_prompts(task, chat, 400)
    assert check_prompts(task, chat, 450) is task
    assert check_prompts(task, chat, 300, count=1) is task


def test_the_tokens_of_images_follow_from_the_sizes_in_their_headers(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    task = loaded("How many?", read=png(280, 140))
    first = task.samples[0]
    length = len(chat.render(first.messages, first.images).ids)
    assert check_prompts(task, chat, length) is task
    with pytest.raises(DataError, match=rf"train/0 with {length} tokens \(50 of images\)"):
        check_prompts(task, chat, length - 1)


def test_no_picture_is_opened_where_the_largest_would_fit(tiny: Tiny) -> None:
    task = loaded("How many?", "7" * 300, read=fail)
    assert check_prompts(task, tiny("qwen2_vl").chat, 5000) is task


def test_rows_that_cannot_be_used_are_left_out_where_they_are_to_be_skipped(
    tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    task = loaded("How many?", "7" * 300, "Which?", "8" * 400, on_bad="skip")
    kept = check_prompts(task, tiny("qwen2_vl").chat, 300, count=1)
    assert [s.id for s in kept.samples] == ["train/0", "train/2"]
    assert isinstance(kept.samples, RowSamples)
    assert [(d.id, d.reason) for d in kept.samples.left_out] == [
        ("train/1", "prompt too long"),
        ("train/3", "prompt too long"),
    ]
    assert "2 rows left out (task.on_bad=skip): 2 prompt too long" in capsys.readouterr().err
    with pytest.raises(DataError, match="no other row is there"):
        check_prompts(task, tiny("qwen2_vl").chat, 3)


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n no picture"])
def test_pictures_that_cannot_be_read_are_found_by_their_headers(content: bytes) -> None:
    task = loaded("How many?", read=lambda: content)
    with pytest.raises(
        DataError, match=r"1 of 1 rows have a picture that cannot be read, .*train/0"
    ):
        check_pictures(task)
    rows = [*task.samples.rows, *loaded("Which?").samples.rows]  # type: ignore[attr-defined]
    two = replace(task, samples=RowSamples(rows, make_sample, Options()), on_bad="skip")
    assert len(check_pictures(two).samples) == 1
    checked = RowSamples(rows, make_sample, Options(), prepared=True)
    assert check_pictures(replace(task, samples=checked)).samples is checked


def test_few_texts_become_ids(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    count = Chat.count_text_tokens

    def counting(self: Chat, messages: tuple[Message, ...], *, name: str, **others: Any) -> int:
        counted.append(name)
        return count(self, messages, name=name, **others)

    monkeypatch.setattr(Chat, "count_text_tokens", counting)
    check_prompts(loaded("7" * 100, "é" * 900, "8" * 1000), tiny("qwen2").chat, 2000)
    assert counted == ["train/1"]


def test_other_tasks_are_not_looked_at(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    chat, task = tiny("qwen2").chat, loaded("7" * 300)
    made = LazySamples(lambda k: sample("7" * 300), range(3))
    counted: list[str] = []

    def counting(self: Chat, messages: Sequence[Message], *, name: str, **others: Any) -> int:
        counted.append(name)
        return 11

    monkeypatch.setattr(Chat, "count_text_tokens", counting)
    check_prompts(replace(task, samples=made), chat, 10)
    check_prompts(replace(task, task=TASK), chat, 10)
    assert counted == []
    with pytest.raises(DataError, match="with 11 tokens"):
        check_prompts(task, chat, 10)


def test_prompts_with_more_images_than_allowed_are_found_before_the_first_step(tiny: Tiny) -> None:
    """No picture is opened for it, and engines refuse what comes without rows."""
    chat = tiny("qwen2_vl").chat
    task = loaded("How many?", "And?", read=fail)
    rows = list(task.samples.rows)  # type: ignore[attr-defined]
    rows[1] = replace(rows[1], pictures=rows[1].pictures * 3)

    task = replace(task, samples=RowSamples(rows, one_or_more, Options()))
    assert check_prompts(task, chat, 10**6, max_images=3) is task
    assert check_prompts(task, chat, 10**6, count=1, max_images=2) is task
    with pytest.raises(
        DataError,
        match=r"1 prompt has more images than rollout.max_images=2: the first is train/1 with 3 images; raise the limit",
    ):
        check_prompts(task, chat, 10**6, max_images=2)
    skipping = replace(task, on_bad="skip")
    kept = check_prompts(skipping, chat, 10**6, max_images=2)
    assert [row.id for row in kept.samples.rows] == ["train/0"]  # type: ignore[attr-defined]


def test_an_engine_refuses_a_prompt_with_too_many_images(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    prompt = policy.chat.render(ask(IMAGE, IMAGE, "?"), [noise_image(28, 28, k) for k in range(2)])
    request = Request(id="both", prompt=prompt, seeds=(0,))
    sampling = Sampling(max_tokens=1, limits=Limits(max_images=1))
    with pytest.raises(DataError, match=r"both: the prompt has 2 images, more than rollout.max_im"):
        HfEngine(policy).generate([request], sampling)
    assert HfEngine(policy).generate([request], Sampling(max_tokens=1))


def test_an_episode_ends_before_a_turn_with_too_many_images(tiny: Tiny) -> None:
    prompt = tiny("qwen2_vl").chat.render(ask(IMAGE, "?"), [noise_image(28, 28)])
    episode = Episode(sample=sample("a"), seed=0, handle=0, keeps_turns=True, turns=1)
    assert not exceeds_limit(episode, prompt, Limits(max_images=1))
    assert exceeds_limit(episode, replace(prompt, images=prompt.images * 2), Limits(max_images=1))


def test_images_that_do_not_fit_together_are_named_as_such_and_not_as_a_long_prompt(
    tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    """No picture is opened for it."""
    whole = tiny("qwen2_vl").chat
    area = 28 * 28 * 4  # of one image of the smallest size
    chat = Chat(whole.tokenizer, whole.image_processor, whole.vision, max_prompt_pixels=area)
    task = loaded("How many?", "And?", read=fail)
    rows = list(task.samples.rows)  # type: ignore[attr-defined]
    rows[1] = replace(rows[1], pictures=rows[1].pictures * 3)
    task = replace(task, samples=RowSamples(rows, one_or_more, Options()))
    with pytest.raises(
        DataError,
        match=r"1 prompt has images that do not fit policy.max_prompt_pixels: the first is train/1: 3 images share "
        r"policy.max_prompt_pixels=3136, which leaves each 1045 pixels, less than the least of 3136; raise it, or lower "
        r"policy.min_pixels; task.on_bad=skip trains without them$",
    ) as caught:
        check_prompts(task, chat, 10**6)
    assert "longer" not in str(caught.value)
    kept = check_prompts(replace(task, on_bad="skip"), chat, 10**6)
    assert len(kept.samples) == 1
    assert "1 images do not fit" in capsys.readouterr().err
