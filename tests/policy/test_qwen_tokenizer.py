"""The real tokenizer gives the released ids, and the real image processor the released number of image tokens."""

from __future__ import annotations

from PIL import Image

from tests.fixtures.qwen_tokenizer import (
    RELEASED_PIXELS,
    image_tokens,
    needs_qwen,
    render,
)
from vlrft.policy.families._qwen import SPECIAL_TOKENS
from vlrft.schema import IMAGE, Message, Sample
from vlrft.testing.qwen_tokenizer import qwen_tokenizer

pytestmark = needs_qwen


def picture(width: int, height: int) -> Sample:
    asked = Message(role="user", content=(IMAGE, "Hello world"))
    return Sample(id="one", messages=(asked,), images=(Image.new("RGB", (width, height)),))


def test_ids_are_the_released_ones() -> None:
    tokenizer = qwen_tokenizer()
    assert tokenizer.encode("Hello world") == [9707, 1879]
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == [*range(151643, 151657)]


def test_text_of_any_script_is_restored() -> None:
    tokenizer = qwen_tokenizer()
    text = "∠ABC = 30°，求 8√{3} 米 \\boxed{x^2}\n\n\tØ 🙂"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_prompt_is_that_of_the_released_template() -> None:
    assert render(picture(112, 112)) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Hello world<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_an_image_takes_a_token_for_each_28_by_28_pixels_within_the_bounds() -> None:
    assert image_tokens(picture(112, 112)) == 16
    assert image_tokens(picture(1120, 840)) == 40 * 30
    # sqrt(401408 / (1120 x 840)) = 0.6532: 731 x 548 pixels, down to 26 x 19 tokens
    assert image_tokens(picture(1120, 840), RELEASED_PIXELS) == 26 * 19
