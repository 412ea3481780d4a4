"""Rewards in TRL's form get the arguments of TRL, and score as in its trainer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.scoring.rollouts import GROUPS, as_rewards, flat, group, sample
from vlrft.schema import IMAGE, Message, RewardError, Sample
from vlrft.scoring.rewards import score_groups
from vlrft.scoring.weighted import WeightedReward
from vlrft.testing.small_policies import noise_image


def test_a_trl_function_gets_the_arguments_of_trl() -> None:
    received: dict[str, Any] = {}

    def reward(prompts: Any, completions: Any, completion_ids: Any, **kwargs: Any) -> list[float]:
        received.update(kwargs, prompts=prompts, completions=completions, ids=completion_ids)
        kwargs["log_extra"]("column", [1, 2])
        kwargs["log_metric"]("name", 0.5)
        return [0.0] * len(completions)

    score_groups([group(sample("a", "x", kind="count"), "x", "yy")], as_rewards(reward))
    assert received["prompts"] == [[{"role": "user", "content": "a"}]] * 2
    assert received["completions"] == [
        [{"role": "assistant", "content": "x"}],
        [{"role": "assistant", "content": "yy"}],
    ]
    assert received["ids"] == [[120], [121, 121]]
    assert received["id"] == ["a", "a"]
    assert received["answer"] == received["solution"] == ["x", "x"]
    assert received["kind"] == ["count", "count"]
    assert "images" not in received


def test_prompts_with_images_are_lists_of_parts_as_in_trl() -> None:
    trl = pytest.importorskip("trl.data_utils")
    received: dict[str, Any] = {}

    def reward(prompts: Any, completions: Any, images: Any, image: Any) -> list[float]:
        received.update(prompts=prompts, images=images, image=image)
        return [0.0] * len(completions)

    picture = noise_image(8, 8)
    messages = (
        Message(role="system", content=("Be brief.",)),
        Message(role="user", content=(IMAGE, "Which?")),
    )
    question = Sample(id="a", messages=messages, images=(picture,), answer="x")
    score_groups([group(question, "x"), group(sample("b", "y"), "y")], as_rewards(reward))
    expected = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which?"}]
    plain = [{"role": "user", "content": "b"}]
    assert received["prompts"] == [
        trl.prepare_multimodal_messages(expected, [picture]),
        trl.prepare_multimodal_messages(plain, []),
    ]
    assert received["images"] == [[picture], None]
    assert received["image"] == [picture, None]


def test_a_trl_function_that_reads_texts_gets_texts() -> None:
    def annotated(completions: list[str], **kwargs: Any) -> list[float]:
        return [float(len(c)) for c in completions]

    def bare(completions, **kwargs):  # type: ignore[no-untyped-def]
        return [float(len(c)) for c in completions]

    lengths = [1, 2, 1, 2, 3]
    assert [r.reward for r in flat(score_groups(GROUPS, as_rewards(annotated)))] == lengths
    assert [r.reward for r in flat(score_groups(GROUPS, as_rewards(bare)))] == [1] * 5
    assert [r.reward for r in flat(score_groups(GROUPS, as_rewards(bare, strings=True)))] == lengths


def test_the_error_names_a_column_that_no_sample_has() -> None:
    def reward(completions: list[str], goal: list[str]) -> list[float]:
        return []

    message = "reward mine needs goal; the samples have answer, completion_ids, completions, id"
    with pytest.raises(RewardError, match=message):
        score_groups(GROUPS, as_rewards(reward))


def test_trl_s_own_rewards_score_as_in_its_trainer() -> None:
    trl = pytest.importorskip("trl")
    from trl import rewards as trl_rewards

    functions = [
        trl_rewards.think_format_reward,
        trl_rewards.get_soft_overlong_punishment(max_completion_len=40, soft_punish_cache=20),
        trl_rewards.get_repetition_penalty_reward(ngram_size=2, max_penalty=-1.0),
    ]
    texts = ("<think>a a a a a</think>b", "x" * 30, "ab ab ab ab", "", "<think></think>c")
    question = [group(sample("a", "x"), *texts), group(sample("b", "y"), *texts[::-1])]
    named = [
        WeightedReward(name=str(k), weight=1.0, function=function)
        for k, function in enumerate(functions)
    ]
    ours = [[r.scores[n.name] for n in named] for r in flat(score_groups(question, named))]
    rows = flat(question)
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device="cpu", is_main_process=True),
        reward_funcs=functions,
        reward_processing_classes=[None] * len(functions),
        reward_func_names=[n.name for n in named],
        state=SimpleNamespace(global_step=0),
        environments=None,
        args=SimpleNamespace(report_to=[]),
        _log_completion_extra=lambda *_: None,
        _log_metric=lambda *_: None,
    )
    theirs = trl.GRPOTrainer._calculate_rewards(
        trainer,
        [{"prompt": [{"role": "user", "content": r.sample.id}]} for r in rows],
        [[{"role": "user", "content": r.sample.id}] for r in rows],
        [[{"role": "assistant", "content": r.text}] for r in rows],
        [list(r.text.encode()) for r in rows],
    )
    assert len({tuple(row) for row in ours}) > 3
    assert theirs.tolist() == [pytest.approx(row, abs=1e-6) for row in ours]
