"""Markup of boxes: strict rewards read it, released ones are given the text as their own decoders give it."""

from __future__ import annotations

import pytest

from vlrft.plugins.find import find_reward
from vlrft.schema import Sample
from vlrft.testing.hostile_targets import TARGETS

GOLD = (100, 200, 300, 400)


@pytest.mark.parametrize("name", ["boxes", "boxes.giou"])
def test_a_marked_box_earns_what_the_same_box_earns_without_markup(name: str) -> None:
    marked = "<answer><|box_start|>(100,200),(300,400)<|box_end|></answer>"
    assert find_reward(name)(marked, Sample(id="s", messages=(), answer=GOLD)) == 1.0


@pytest.mark.parametrize(
    "name",
    [name for name in TARGETS if name.startswith(("boxes.visual", "boxes.vlm", "boxes.qwen"))],
)
def test_released_rewards_do_not_see_markup_wherever_it_stands(name: str) -> None:
    target, reward = TARGETS[name], find_reward(name)
    sample = Sample(id="s", messages=(), answer=target.gold, tags=target.tags, info=target.info)
    marked = target.right.replace("2", "2<|box_end|>")
    assert reward(marked, sample) == reward(target.right, sample) != 0.0
