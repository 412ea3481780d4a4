"""The prompts of videos, for a memory plan."""

from __future__ import annotations

from tests.conftest import Tiny
from vlrft.config import TaskConfig
from vlrft.memory.shapes import PromptSize
from vlrft.trainer.memory_plan.prompt_lengths import measure_prompts


def test_a_prompt_has_the_patches_and_the_decoded_frames_of_its_videos(tiny: Tiny) -> None:
    shown = {"frames": 4, "canvas": 28, "sizes": [20, 28], "passes": [1, 1], "max_count": 1}
    task = TaskConfig(name="digits_moving", options=shown | {"train": 2})
    prompts = measure_prompts(task, "train", tiny("qwen2_vl").chat, PromptSize(tokens=4096))
    assert [size.frames for size in prompts.sizes] == [4 * 28 * 28 * 3] * 2
    assert all(size.patches for size in prompts.sizes)
