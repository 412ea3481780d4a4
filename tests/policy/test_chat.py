"""Messages and images -> ids and pixels."""

from __future__ import annotations

import io
import json
import weakref
from copy import deepcopy

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from tokenizers import Tokenizer

from tests.conftest import Tiny
from vlrft.policy.chat import Chat
from vlrft.schema import IMAGE, DataError, Message
from vlrft.testing.small_policies import ask, noise_image
from vlrft.vision.images import upright_rgb


def test_a_prompt_is_in_the_format_of_the_family(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    prompt = chat.render(ask(IMAGE, "Which digit is this?"), [noise_image(112, 112)])
    text = chat.tokenizer.decode(prompt.ids)
    assert text == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        f"<|vision_start|>{'<|image_pad|>' * 16}<|vision_end|>Which digit is this?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_a_system_message_and_earlier_turns_are_kept(tiny: Tiny) -> None:
    chat = tiny("qwen2").chat
    messages = (
        Message(role="system", content=("Be brief.",)),
        Message(role="user", content=("a",)),
        Message(role="assistant", content=("b",)),
        Message(role="user", content=("c",)),
    )
    assert chat.tokenizer.decode(chat.render(messages).ids) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
        "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_plain_message_is_rendered_unchanged_for_base_models(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    asked = Message(role="plain", content=(IMAGE, "User: a? \nAssistant: <think>\n"))
    prompt = chat.render((asked,), [noise_image(112, 112)])
    assert chat.tokenizer.decode(prompt.ids) == (
        f"<|vision_start|>{'<|image_pad|>' * 16}<|vision_end|>User: a? \nAssistant: <think>\n"
    )
    with pytest.raises(DataError, match="must be the only one"):
        chat.render((asked, *ask("more")), [noise_image(112, 112)])


def test_ids_without_a_token_are_banned_wherever_they_are(tiny: Tiny) -> None:
    """A vocabulary may have holes: its last token then lies beyond the number of its tokens."""
    tokenizer = deepcopy(tiny("qwen2").chat.tokenizer)
    count = len(tokenizer)
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    added, vocab = state["added_tokens"], state["model"]["vocab"]
    added.append({**added[-1], "id": count + 2, "content": "word", "special": False})
    vocab["word"] = count + 2
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(state))
    chat = Chat(tokenizer, vocab_size=count + 4)
    assert chat.answer_ids("word")[0] == count + 2
    assert {i for i in chat.banned_ids if i >= count} == {count, count + 1, count + 3}


def test_pixels_and_image_tokens_of_several_images_of_different_sizes(tiny: Tiny) -> None:
    chat = tiny("qwen2_5_vl").chat
    wide, small = noise_image(224, 84, 1), noise_image(56, 56, 2)
    prompt = chat.render(ask(IMAGE, "and", IMAGE), [wide, small])
    assert [image.grid for image in prompt.images] == [(1, 6, 16), (1, 4, 4)]
    assert prompt.ids.count(chat.image_token_id) == 24 + 4
    made = chat.image_processor(images=[wide, small], return_tensors="pt")["pixel_values"]
    assert torch.equal(torch.cat([image.values for image in prompt.images]), made)


def test_an_image_is_processed_once_for_each_content(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    first = chat.render(ask(IMAGE), [noise_image(84, 84, 5)])
    again = chat.render(ask(IMAGE, "?"), [noise_image(84, 84, 5)])
    other = chat.render(ask(IMAGE), [noise_image(84, 84, 6)])
    assert again.images[0] is first.images[0]
    assert other.images[0].key != first.images[0].key
    same_bytes = Image.frombytes("RGB", (42, 168), noise_image(84, 84, 5).tobytes())
    assert chat.render(ask(IMAGE), [same_bytes]).images[0].key != first.images[0].key


def test_an_image_whose_pixels_are_still_referenced_is_not_processed_again(tiny: Tiny) -> None:
    whole = tiny("qwen2_vl").chat
    chat = Chat(whole.tokenizer, whole.image_processor, whole.vision, cache_bytes=0)
    (pixels,) = chat.process_images([noise_image(84, 84, 5)])
    assert chat.process_images([noise_image(84, 84, 5)])[0] is pixels
    reference = weakref.ref(pixels)
    del pixels
    assert reference() is None  # the chat keeps no more than its cache


def test_transparency_becomes_white_and_exif_turns_the_image() -> None:
    clear = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    assert upright_rgb(clear).getpixel((0, 0)) == (255, 255, 255)
    half = Image.new("LA", (2, 2), (0, 128))
    assert upright_rgb(half).getpixel((0, 0)) == (127, 127, 127)
    palette = Image.new("P", (2, 2), 0)
    palette.info["transparency"] = 0
    assert upright_rgb(palette).getpixel((0, 0)) == (255, 255, 255)
    lying = noise_image(6, 4)
    exif = lying.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    file = io.BytesIO()
    lying.save(file, "PNG", exif=exif)
    shown = upright_rgb(Image.open(file))
    expected = lying.transpose(Image.Transpose.ROTATE_270)
    assert np.array_equal(np.array(shown), np.array(expected))
    grey = ImageOps.grayscale(lying)
    assert np.array_equal(np.array(upright_rgb(grey))[..., 0], np.array(grey))


def test_errors_name_the_sample(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    with pytest.raises(DataError, match="s/1: 1 image slots in the messages, but 0 images"):
        chat.render(ask(IMAGE, "?"), name="s/1")
    with pytest.raises(DataError, match=r"s/3: image 0 cannot be read: .*9000 x 28 pixels"):
        chat.render(ask(IMAGE), [noise_image(9000, 28)], name="s/3")
    with pytest.raises(DataError, match="this policy takes text only"):
        tiny("qwen2").chat.render(ask(IMAGE), [noise_image(56, 56)])


def test_a_template_without_images_is_an_error(tiny: Tiny) -> None:
    whole = tiny("qwen2_vl").chat
    tokenizer = deepcopy(whole.tokenizer)
    tokenizer.chat_template = tokenizer.chat_template.replace("<|image_pad|>", "")
    chat = Chat(tokenizer, whole.image_processor, whole.vision)
    with pytest.raises(DataError, match=r"s/2: 0 image placeholders .* for 1 images"):
        chat.render(ask(IMAGE), [noise_image(56, 56)], name="s/2")
    with pytest.raises(DataError, match=r"s/2: 0 image placeholders .* for 1 images"):
        chat.follow((), ask(IMAGE), [noise_image(56, 56)], name="s/2")


def test_a_conversation_that_the_template_refuses_is_an_error_of_its_place(tiny: Tiny) -> None:
    """Gemma's templates, for example, take no system message."""
    tokenizer = deepcopy(tiny("qwen2").chat.tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    )
    chat = Chat(tokenizer)
    system = Message(role="system", content=("Be brief.",))
    expected = r"s/5: the policy's chat template refuses this conversation \(roles: system, user\): System role not supported; "
    with pytest.raises(DataError, match=expected):
        chat.render((system, *ask("hi")), name="s/5")
    with pytest.raises(DataError, match="s/5: the policy's chat template refuses"):
        chat.follow((), (system, *ask("hi")), name="s/5")
    assert chat.render(ask("hi"), name="s/5").ids


def test_an_error_names_an_unreadable_image(tiny: Tiny) -> None:
    file = io.BytesIO()
    noise_image(64, 64).save(file, "PNG")
    broken = Image.open(io.BytesIO(file.getvalue()[:2000]))
    broken.filename = "scan.png"
    with pytest.raises(DataError, match=r"s/4: image 1 \(scan.png\) cannot be read"):
        tiny("qwen2_vl").chat.render(ask(IMAGE, IMAGE), [noise_image(56, 56), broken], name="s/4")


@pytest.mark.parametrize(("mode", "size"), [("RGB", (0, 5)), ("La", (9, 9))])
def test_an_error_names_an_image_that_cannot_be_decoded(
    tiny: Tiny, mode: str, size: tuple[int, int]
) -> None:
    with pytest.raises(DataError, match="s/5: image 0 cannot be read: "):
        tiny("qwen2_vl").chat.render(ask(IMAGE), [Image.new(mode, size)], name="s/5")


def test_banned_end_and_answer_tokens(tiny: Tiny) -> None:
    policy = tiny("qwen2_vl")
    chat = policy.chat
    id_of = chat.tokenizer.convert_tokens_to_ids
    assert chat.end_ids == {id_of("<|im_end|>"), id_of("<|endoftext|>")}
    assert not chat.end_ids & chat.banned_ids
    control = ("image_pad", "video_pad", "vision_start", "vision_end", "im_start")
    assert {id_of(f"<|{token}|>") for token in control} <= chat.banned_ids
    assert id_of("<|box_start|>") not in chat.banned_ids  # Qwen2-VL writes its boxes with it
    vocab = policy.model.config.get_text_config().vocab_size
    assert set(range(len(chat.tokenizer), vocab)) <= chat.banned_ids
    assert vocab > len(chat.tokenizer)
    ids = chat.answer_ids("<answer>42</answer>")
    assert ids[-1] == id_of("<|im_end|>")
    assert chat.decode(ids) == "<answer>42</answer>"


def test_decoded_text_has_the_markup_of_boxes_and_no_other_special_token(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    box = "<|object_ref_start|>42<|object_ref_end|><|box_start|>(1,2),(3,4)<|box_end|>"
    pad = chat.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    assert chat.decode([pad, *chat.answer_ids(box)]) == box
    assert len(chat.tokenizer.encode("42")) == 2  # digits one by one


def test_follow_gives_the_text_of_the_template_after_an_answer(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    id_of = chat.tokenizer.convert_tokens_to_ids
    ended = chat.answer_ids("left")
    added = chat.follow(ended, ask(IMAGE, "and now?"), [noise_image(56, 56)])
    assert chat.tokenizer.decode(added.ids) == (
        f"\n<|im_start|>user\n<|vision_start|>{'<|image_pad|>' * 4}<|vision_end|>and now?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert [image.grid for image in added.images] == [(1, 4, 4)]
    # any token that ends an answer also ends the turn, and only one is written
    other = chat.follow((*ended[:-1], id_of("<|endoftext|>")), ask("and now?"))
    same = chat.follow(ended, ask("and now?"))
    cut = chat.follow(ended[:-1], ask("and now?"))
    assert other.ids == same.ids
    assert cut.ids == (chat.end_id, *same.ids) == chat.follow((), ask("and now?")).ids


def test_several_messages_can_follow(tiny: Tiny) -> None:
    chat = tiny("qwen2").chat
    more = (
        Message(role="user", content=("a",)),
        Message(role="assistant", content=("b",)),
        Message(role="user", content=("c",)),
    )
    assert chat.tokenizer.decode(chat.follow(chat.answer_ids("x"), more).ids) == (
        "\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_plain_message_follows_unchanged(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    plain = Message(role="plain", content=(IMAGE, " now?\nAnswer:"))
    added = chat.follow(chat.answer_ids("x"), (plain,), [noise_image(56, 56)])
    assert chat.tokenizer.decode(added.ids) == (
        f"<|vision_start|>{'<|image_pad|>' * 4}<|vision_end|> now?\nAnswer:"
    )
    with pytest.raises(DataError, match="must be the only one"):
        chat.follow((), (plain, *ask("more")), [noise_image(56, 56)])


def test_the_same_messages_are_rendered_differently_at_the_start_and_later(tiny: Tiny) -> None:
    chat = tiny("qwen2").chat
    begun = chat.render(ask("once more"))
    followed = chat.follow((chat.end_id,), ask("once more"))
    assert chat.render(ask("once more")).ids == begun.ids != followed.ids
    assert begun.ids[-len(followed.ids) + 1 :] == followed.ids[1:]  # but for the line's end


def test_errors_name_the_sample_in_later_turns_too(tiny: Tiny) -> None:
    chat = tiny("qwen2_vl").chat
    with pytest.raises(DataError, match="s/1: 1 image slots in the messages, but 0 images"):
        chat.follow((), ask(IMAGE), name="s/1")
    with pytest.raises(DataError, match="0 image slots in the messages, but 1 images"):
        chat.follow((), ask("?"), [noise_image(56, 56)])
    with pytest.raises(DataError, match="this policy takes text only"):
        tiny("qwen2").chat.follow((), ask(IMAGE), [noise_image(56, 56)])
