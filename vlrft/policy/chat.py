"""Messages and images -> token ids and pixels, and ids -> text: the only file that touches a chat template."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from vlrft.policy.byte_cache import ByteCache
from vlrft.schema import IMAGE, DataError, Message, Pixels, Prompt
from vlrft.tracing.phases import phase
from vlrft.vision.images import upright_rgb

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

PLACE = "<|vision_start|><|image_pad|><|vision_end|>"  # of an image, where no template writes it
SAID = "\u241fsaid\u241f"  # stands for the policy's words where only what follows them is wanted
PIXEL_CACHE_BYTES = 256 * 2**20
RENDERED_TEXTS = 4096  # conversations whose token ids are kept
# Special tokens that answers are written with: Qwen2-VL marks the boxes it gives with these.
MARKUP = tuple(
    f"<|{kind}_{edge}|>" for kind in ("object_ref", "box", "quad") for edge in ("start", "end")
)


class Chat:
    """A tokenizer with its chat template, and the image processor of a policy that sees.

    `pad_id`; `end_ids`: tokens that end an answer; `banned_ids`: tokens that are never sampled: vision and other
    control tokens, and ids beyond the tokenizer.
    """

    def __init__(
        self,
        tokenizer: Any,
        image_processor: Any = None,
        *,
        vocab_size: int | None = None,
        end_ids: Iterable[int] = (),
        image_token_id: int | None = None,
        processor_class: str | None = None,
        cache_bytes: int = PIXEL_CACHE_BYTES,
    ) -> None:
        """`vocab_size`: the model's. `end_ids`: besides the tokenizer's own. `processor_class`: named in saved files,
        so that `AutoProcessor` finds it. The last three concern policies that see."""
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.image_token_id = image_token_id
        self.processor_class = processor_class
        self.end_id: int = tokenizer.eos_token_id
        self.end_ids = frozenset([self.end_id, *end_ids])
        self.pad_id: int = self.end_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.banned_ids = _banned(tokenizer, vocab_size or len(tokenizer)) - self.end_ids
        self._texts: OrderedDict[tuple[bool, tuple[Message, ...]], tuple[int, ...]] = OrderedDict()
        self._pixels = ByteCache[Pixels](cache_bytes)
        self._held: WeakValueDictionary[str, Pixels] = WeakValueDictionary()
        self._lock = Lock()
        settings = image_processor.to_json_string() if image_processor else ""
        self._settings = hashlib.sha256(settings.encode()).digest()

    @phase("render")
    def render(
        self, messages: Sequence[Message], images: Sequence[PilImage] = (), *, name: str = ""
    ) -> Prompt:
        """The conversation as the policy reads it when it is its turn. `name` (a sample's id) is for messages.

        Raises DataError when images and IMAGE slots differ in number, or an image cannot be read.
        """
        where = f"{name}: " if name else ""
        self._refuse_other_images(messages, images, where)
        return self._shown(self._text_ids(tuple(messages)), images, where)

    @phase("render")
    def follow(
        self,
        last: Sequence[int],
        messages: Sequence[Message],
        images: Sequence[PilImage] = (),
        *,
        name: str = "",
    ) -> Prompt:
        """What stands between the policy's `last` ids and its next turn when the messages are added: the end of its
        turn, where it did not end it itself, the messages, and the opening of its next. Raises DataError as `render`.
        """
        where = f"{name}: " if name else ""
        self._refuse_other_images(messages, images, where)
        ids = self._text_ids(tuple(messages), follows=True)
        if last and last[-1] in self.end_ids and ids and ids[0] in self.end_ids:
            ids = ids[1:]
        return self._shown(ids, images, where)

    def _refuse_other_images(
        self, messages: Sequence[Message], images: Sequence[PilImage], where: str
    ) -> None:
        slots = sum(part is IMAGE for message in messages for part in message.content)
        if slots != len(images):
            raise DataError(f"{where}{slots} image slots in the messages, but {len(images)} images")
        if slots and self.image_processor is None:
            raise DataError(f"{where}an image, but this policy reads text only")

    def _shown(self, ids: tuple[int, ...], images: Sequence[PilImage], where: str) -> Prompt:
        """The ids with room for the images' features."""
        if self.image_token_id is None:
            return Prompt(ids=ids)
        pixels = tuple(self.see(image, f"{where}image {i}") for i, image in enumerate(images))
        return Prompt(ids=self._with_places(ids, pixels, where), images=pixels)

    def answer_ids(self, text: str) -> tuple[int, ...]:
        """An assistant's answer with the token that ends its turn."""
        return (*self.tokenizer.encode(text, add_special_tokens=False), self.end_id)

    def decode(self, ids: Sequence[int]) -> str:
        """Text without special tokens."""
        return self.decode_all([ids])[0]

    def decode_all(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """`decode` of many rows at once."""
        texts: list[str] = self.tokenizer.batch_decode(
            [list(row) for row in rows],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return texts

    def save(self, path: Path) -> None:
        """Writes the files that AutoTokenizer, AutoImageProcessor and AutoProcessor read."""
        self.tokenizer.save_pretrained(path)
        if self.image_processor is not None:
            if self.processor_class is not None:
                self.image_processor.processor_class = self.processor_class
            self.image_processor.save_pretrained(path)

    def _text_ids(self, messages: tuple[Message, ...], *, follows: bool = False) -> tuple[int, ...]:
        """The rendered conversation, or what it adds to one; one placeholder an image."""
        key = (follows, messages)
        known = self._texts.get(key)
        if known is not None:
            self._texts.move_to_end(key)
            return known
        text = self._added_text(messages) if follows else self._text(messages)
        ids = tuple(self.tokenizer.encode(text, add_special_tokens=False))
        self._texts[key] = ids
        if len(self._texts) > RENDERED_TEXTS:
            self._texts.popitem(last=False)
        return ids

    def _text(self, messages: tuple[Message, ...]) -> str:
        """The rendered conversation; a plain message as it stands. Raises DataError when it is not alone."""
        if all(message.role != "plain" for message in messages):
            text: str = self.tokenizer.apply_chat_template(
                [_as_dict(m) for m in messages], tokenize=False, add_generation_prompt=True
            )
            return text
        if len(messages) > 1:
            raise DataError(
                "a plain message stands without a chat template: it must be the only one"
            )
        parts = (part for message in messages for part in message.content)
        return "".join(PLACE if part is IMAGE else str(part) for part in parts)

    def _added_text(self, messages: tuple[Message, ...]) -> str:
        """What the template writes behind an assistant's words when messages follow them."""
        if any(message.role == "plain" for message in messages):
            return self._text(messages)
        begun = [{"role": "user", "content": "-"}, {"role": "assistant", "content": SAID}]
        text: str = self.tokenizer.apply_chat_template(
            [*begun, *map(_as_dict, messages)], tokenize=False, add_generation_prompt=True
        )
        _, said, added = text.rpartition(SAID)
        if not said:
            raise DataError(
                "this policy's chat template leaves out or changes what an assistant said, so that no context can grow; "
                "let the environment show each turn whole (follows=False)"
            )
        return added

    def _with_places(
        self, ids: tuple[int, ...], pixels: tuple[Pixels, ...], where: str
    ) -> tuple[int, ...]:
        """Each placeholder repeated to the number of features of its image."""
        places = ids.count(self.image_token_id)
        if places != len(pixels):
            token = self.tokenizer.convert_ids_to_tokens(self.image_token_id)
            raise DataError(
                f"{where}{places} image placeholders in the rendered prompt for {len(pixels)} images; "
                f"the text may not contain {token}, and the chat template must know images"
            )
        found = iter(pixels)
        out: list[int] = []
        for i in ids:
            out += [i] * self.features(next(found)) if i == self.image_token_id else [i]
        return tuple(out)

    def features(self, pixels: Pixels) -> int:
        """Tokens that an image takes in a prompt."""
        time, height, width = pixels.grid
        merged: int = self.image_processor.merge_size**2
        return time * height * width // merged

    @phase("images")
    def see(self, image: PilImage, where: str = "image") -> Pixels:
        """An image as the policy takes it; processed once while anybody holds it, or it is among those used last. May
        be called from any thread. Raises DataError, naming it by `where`, when it cannot be used."""
        image = upright_rgb(image, where)
        content = hashlib.sha256(self._settings)
        content.update(repr(image.size).encode())
        content.update(image.tobytes())
        key = content.hexdigest()
        with self._lock:
            known = self._pixels.get(key) or self._held.get(key)
        if known is not None:
            return known
        try:
            made = self.image_processor(images=[image], return_tensors="pt")
        except ValueError as e:  # such as an absurd aspect ratio
            raise DataError(f"{where} ({image.width} x {image.height} pixels): {e}") from None
        time, height, width = made["image_grid_thw"][0].tolist()
        pixels = Pixels(key=key, grid=(time, height, width), values=made["pixel_values"])
        with self._lock:
            self._held[key] = pixels
            self._pixels.put(key, pixels, pixels.values.nbytes)
        return pixels


def _as_dict(message: Message) -> dict[str, Any]:
    """The form that chat templates take: a string where all is text, else a list of parts."""
    if all(isinstance(part, str) for part in message.content):
        return {"role": message.role, "content": "".join(map(str, message.content))}
    parts = [
        {"type": "image"} if part is IMAGE else {"type": "text", "text": part}
        for part in message.content
    ]
    return {"role": message.role, "content": parts}


def _banned(tokenizer: Any, vocab_size: int) -> frozenset[int]:
    """Control tokens and the ids that no token has; not the markup that answers may hold."""
    special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    special |= set(tokenizer.all_special_ids)
    special -= {i for i, t in tokenizer.added_tokens_decoder.items() if t.content in MARKUP}
    return frozenset(special | set(range(len(tokenizer), vocab_size)))
