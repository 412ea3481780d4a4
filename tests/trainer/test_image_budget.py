"""Images in the budget of a micro-batch: weighed alike by the trainer and the memory plan, without a trace in the gradient."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Tiny
from tests.trainer.test_update import LARGE, assert_equal, build_policy, step_gradient
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS
from vlrft.config import LoraConfig
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.schema import Group
from vlrft.testing.small_policies import CORPUS, Family, image_group, tiny_config
from vlrft.trainer.batch import Batch, make_batch
from vlrft.trainer.memory_plan.model_shapes import load_model_shape, policy_shape
from vlrft.trainer.micro_batches import image_weight

GPG = ALGORITHMS["gpg"]
SETTINGS: dict[str, dict[str, Any]] = {
    "all": {},
    "frozen tower": {"freeze": ["vision"]},
    "frozen vision": {"freeze": ["vision", "projector"]},
    "frozen language": {"freeze": ["language"]},
    "LoRA": {"lora": LoraConfig(rank=2)},
    "checkpointing": {"activation_checkpointing": True},
    "bfloat16": {"dtype": "bfloat16"},
    "eager": {"attention": "eager"},
}


def groups_with_images(policy: Policy) -> list[Group]:
    """Four groups; the last two questions are about the same two images."""
    rewards, answers = [1.0, 0.0, 0.5], ["7", "12 12", "3s"]
    return [
        image_group(policy.chat, "Which digit is this?", rewards, answers),
        image_group(policy.chat, "How many?", rewards, answers, images=0),
        image_group(policy.chat, "Which?", rewards, answers, images=2),
        image_group(policy.chat, "Which digit?", rewards, answers, images=2),
    ]


def batch_of(groups: list[Group]) -> Batch:
    advantages = estimate_rows(groups, GPG.estimator)
    return make_batch(groups, advantages, GPG, temperature=1.0, max_tokens=10)


@pytest.mark.parametrize(
    ("family", "name"), [*(("qwen2_vl", name) for name in SETTINGS), ("qwen2_5_vl", "all")]
)
def test_the_trainer_weighs_images_as_the_plan_does(family: Family, name: str) -> None:
    config = tiny_config(family, **SETTINGS[name])
    policy = load_policy(config, corpus=CORPUS)
    planned = load_model_shape(config, tokenizer=policy.chat.tokenizer, device="cpu")
    assert policy_shape(policy) == planned
    (image,) = batch_of(groups_with_images(policy)).prompts[0].images
    assert (image_weight(policy)(image) == 0) == (name == "frozen vision")


def test_a_text_only_policy_weighs_nothing(tiny: Tiny) -> None:
    image = batch_of(groups_with_images(tiny("qwen2_vl"))).prompts[0].images[0]
    assert image_weight(tiny("qwen2"))(image) == 0


def test_images_leave_less_room_for_rows(tiny: Tiny) -> None:
    """Equal images are encoded once in a micro-batch, and count once."""
    policy = tiny("qwen2_vl")
    batch, weight = batch_of(groups_with_images(policy)), image_weight(policy)
    longest = max(len(i.prompt.ids) + sum(map(len, i.rows)) for i in batch.items())
    images = {i.key: weight(i) for p in batch.prompts for i in p.images}
    budget = 4 * longest + sum(images.values())
    assert min(images.values()) > 1
    assert len(list(batch.micro_batch_rows(budget, weight))) == 1
    assert len(list(batch.micro_batch_rows(budget - 1, weight))) == 2
    assert len(list(batch.micro_batch_rows(4 * longest, lambda image: 0))) == 1


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl"])
def test_the_gradient_does_not_depend_on_how_images_split_the_batch(family: Family) -> None:
    policy = build_policy(family)
    groups, weight = groups_with_images(policy), image_weight(policy)
    batch = batch_of(groups)
    counts = [len(list(batch.micro_batch_rows(budget, weight))) for budget in (LARGE, 200, 1)]
    assert 1 == counts[0] < counts[1] < counts[2] == len(batch.ids)
    whole = step_gradient(policy, groups, GPG, LARGE)
    for budget in (200, 1):
        assert_equal(step_gradient(policy, groups, GPG, budget), whole)
