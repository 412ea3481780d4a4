"""The area that all images of a prompt share."""

from __future__ import annotations

import pytest

from tests.conftest import Tiny
from vlrft.config import PolicyConfig
from vlrft.policy.chat import Chat
from vlrft.schema import IMAGE, DataError, Sample
from vlrft.testing.small_policies import ask, noise_image

AREA = 28 * 28 * 16  # of 16 tokens


def sharing(tiny: Tiny, area: int | None = AREA) -> Chat:
    whole = tiny("qwen2_vl").chat
    return Chat(whole.tokenizer, whole.image_processor, whole.vision, max_prompt_pixels=area)


@pytest.mark.parametrize(("images", "tokens"), [(1, 16), (2, 8), (4, 4)])
def test_each_of_n_images_has_an_nth_of_the_area(tiny: Tiny, images: int, tokens: int) -> None:
    pictures = [noise_image(280, 280, k) for k in range(images)]
    prompt = sharing(tiny).render(ask(*[IMAGE] * images, "?"), pictures)
    assert all(image.tokens <= tokens for image in prompt.images)
    assert max(image.tokens for image in prompt.images) >= tokens / 2
    assert len(sharing(tiny, None).render(ask(IMAGE, "?"), pictures[:1]).images[0].values) == 400


def test_a_sample_that_is_prepared_ahead_has_the_pixels_of_its_prompt(tiny: Tiny) -> None:
    chat = sharing(tiny)
    pictures = tuple(noise_image(112, 112, k) for k in range(2))
    sample = Sample(id="a", messages=ask(IMAGE, IMAGE), images=pictures)
    ahead = chat.process(sample)
    rendered = chat.render(sample.shown_messages, sample.shown_images).images
    assert all(one is other for one, other in zip(ahead, rendered, strict=True))
    alone = chat.render(ask(IMAGE), pictures[:1]).images[0]
    assert alone.key != ahead[0].key
    assert alone.tokens > ahead[0].tokens


def test_images_that_do_not_fit_together_are_refused_by_name(tiny: Tiny) -> None:
    images = [noise_image(56, 56, k) for k in range(8)]
    with pytest.raises(
        DataError,
        match=r"row 3: 8 images share policy.max_prompt_pixels=12544, which leaves each 1568 pixels, less than the least of 3136",
    ):
        sharing(tiny).render(ask(*[IMAGE] * 8), images, name="row 3")


def test_an_area_below_that_of_one_image_is_refused() -> None:
    with pytest.raises(ValueError, match="min_pixels 3136, more than max_prompt_pixels 784"):
        PolicyConfig(min_pixels=3136, max_prompt_pixels=784)


def test_an_image_that_the_processor_refuses_is_named_with_its_size(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("too long")

    chat = sharing(tiny)
    monkeypatch.setattr(type(chat.vision), "process", refuse)
    with pytest.raises(DataError, match=r"row 3: image 0 \(56 x 84 pixels\): too long"):
        chat.render(ask(IMAGE), [noise_image(56, 84, 0)], name="row 3")
