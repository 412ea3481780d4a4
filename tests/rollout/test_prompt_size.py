"""Estimated sizes of prompts."""

from __future__ import annotations

from dataclasses import replace

from vlrft.rollout.prompt_size import prompt_size
from vlrft.schema import Resize
from vlrft.testing.small_policies import noise_image, sample


def test_the_size_of_a_prompt_counts_its_text_and_its_resized_images() -> None:
    resize = Resize(min_pixels=28 * 28 * 4, max_pixels=28 * 28 * 9)
    asked = replace(
        sample("12345678"),
        images=(noise_image(280, 280), noise_image(28, 28), noise_image(56, 84)),
    )
    assert prompt_size(asked, resize) == 2 + 9 + 4 + 6
    assert prompt_size(asked, None) == 2
