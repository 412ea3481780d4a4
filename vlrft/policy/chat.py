"""Messages and images -> token ids and pixels, and ids -> text."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from PIL.Image import Image as PilImage

from vlrft.memory.limits import PIXEL_CACHE_BYTES
from vlrft.policy.byte_cache import ByteCache
from vlrft.policy.chat_template import ChatTemplate
from vlrft.policy.control_tokens import ControlTokens
from vlrft.policy.families import VisionFamily, answer_markup, shown_markup
from vlrft.schema import IMAGE, DataError, Message, Pixels, Prompt, Resize
from vlrft.tracing.phases import phase
from vlrft.vision.images import upright_rgb

RENDERED_TEXTS = 4096  # conversations whose token ids are kept


class Chat:
    """A tokenizer with its chat template and, for a multimodal policy, an image processor. Thread-safe.

    `special_ids` are no part of a text: special tokens, without the markup that answers may contain, such as
    `<|box_start|>`. `end_ids` are the tokens that end an answer; `banned_ids` are never sampled: vision and other control tokens, and ids
    that the tokenizer does not have.
    """

    def __init__(
        self,
        tokenizer: Any,
        image_processor: Any = None,
        vision: VisionFamily | None = None,
        *,
        image_token_id: int | None = None,
        vocab_size: int | None = None,
        end_ids: Iterable[int] = (),
        processor_class: str | None = None,
        cache_bytes: int = PIXEL_CACHE_BYTES,
    ) -> None:
        """`vision`: the family whose image processor it is. `image_token_id`: the model's; None: that of the family's
        `image_token`. `vocab_size`: the model's. `end_ids`: in addition to the tokenizer's. `processor_class`: written to
        saved files, so that `AutoProcessor` finds it."""
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.vision = vision
        if vision is not None and image_token_id is None:
            image_token_id = tokenizer.convert_tokens_to_ids(vision.image_token)
        self.image_token_id = image_token_id
        self.processor_class = processor_class
        self.end_id: int = tokenizer.eos_token_id
        self.end_ids = frozenset([self.end_id, *end_ids])
        self.pad_id: int = self.end_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.special_ids = _special_ids(tokenizer, shown_markup())
        never = _special_ids(tokenizer, answer_markup())
        unknown = range(len(tokenizer), vocab_size or len(tokenizer))
        self.banned_ids = never.union(unknown) - self.end_ids
        self.control = ControlTokens(tokenizer)
        self.template = ChatTemplate(
            tokenizer, self.control, "" if vision is None else vision.image_text
        )
        self._texts: OrderedDict[tuple[bool, tuple[Message, ...]], tuple[int, ...]] = OrderedDict()
        self._pixels = ByteCache[Pixels](cache_bytes)
        self._referenced: WeakValueDictionary[str, Pixels] = WeakValueDictionary()
        self._lock, self._text_lock = Lock(), Lock()
        settings = image_processor.to_json_string() if image_processor else ""
        self._settings = hashlib.sha256(settings.encode()).digest()

    @property
    def image_token(self) -> str | None:
        """The special token in place of images; None for a text-only policy."""
        if self.image_token_id is None:
            return None
        token: str = self.tokenizer.convert_ids_to_tokens(self.image_token_id)
        return token

    @property
    def resize(self) -> Resize | None:
        """How images are resized; None for a text-only policy."""
        return None if self.vision is None else self.vision.resize(self.image_processor)

    @phase("render")
    def render(
        self, messages: Sequence[Message], images: Sequence[PilImage] = (), *, name: str = ""
    ) -> Prompt:
        """The conversation up to the policy's next turn. `name` (a sample's id) is used in error messages.

        Raises DataError when images and IMAGE slots differ in number, or an image cannot be read.
        """
        where = f"{name}: " if name else ""
        self._check_image_count(messages, images, where)
        return self._with_images(self._text_ids(tuple(messages), where), images, where)

    def count_text_tokens(self, messages: Sequence[Message], *, name: str = "") -> int:
        """The number of tokens of `render`'s prompt if each image were one token. Raises DataError as `render`."""
        return len(self._text_ids(tuple(messages), f"{name}: " if name else ""))

    @phase("render")
    def follow(
        self,
        last: Sequence[int],
        messages: Sequence[Message],
        images: Sequence[PilImage] = (),
        *,
        name: str = "",
    ) -> Prompt:
        """The tokens to append after the policy's answer `last`: an end-of-turn token if it lacks one, the new messages,
        and the opening of the policy's next turn. Raises DataError as `render`."""
        where = f"{name}: " if name else ""
        self._check_image_count(messages, images, where)
        ids = self._text_ids(tuple(messages), where, follows=True)
        if last and last[-1] in self.end_ids and ids and ids[0] in (last[-1], self.end_id):
            ids = ids[1:]  # another token here, such as a role's name, also opens the next turn
        return self._with_images(ids, images, where)

    def _check_image_count(
        self, messages: Sequence[Message], images: Sequence[PilImage], where: str
    ) -> None:
        slots = sum(part is IMAGE for message in messages for part in message.content)
        if slots != len(images):
            raise DataError(f"{where}{slots} image slots in the messages, but {len(images)} images")
        if slots and self.image_processor is None:
            raise DataError(f"{where}an image, but this policy takes text only")

    def _with_images(self, ids: tuple[int, ...], images: Sequence[PilImage], where: str) -> Prompt:
        """The ids with as many image tokens as the images have features."""
        if self.vision is None:
            return Prompt(ids=ids)
        pixels = tuple(
            self.process_image(image, f"{where}image {i}") for i, image in enumerate(images)
        )
        return Prompt(ids=self._with_places(ids, pixels, where), images=pixels)

    def answer_ids(self, text: str, *, name: str = "") -> tuple[int, ...]:
        """An assistant's answer with the token that ends its turn. Of control tokens in the text, tags and the families'
        markup have their own ids. Raises DataError, with `name` in the message, for text that cannot be encoded."""
        where = f"{name}: " if name else ""
        with _named(where):
            (quoted,) = self.control.quote([text], self.control.in_answers)
        return (*self.control.encode(quoted), self.end_id)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of all tokens but `special_ids`."""
        return self.decode_all([ids])[0]

    def decode_all(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """As `decode`, row by row."""
        if not rows:  # for which batch_decode returns one text
            return []
        texts: list[str] = self.tokenizer.batch_decode(
            [[i for i in row if i not in self.special_ids] for row in rows],
            skip_special_tokens=False,
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

    def _text_ids(
        self, messages: tuple[Message, ...], where: str, *, follows: bool = False
    ) -> tuple[int, ...]:
        """The ids of a rendered conversation, or with `follows` of the text it adds to one; one image token per image."""
        key = (follows, messages)
        with self._text_lock:
            if key in self._texts:
                self._texts.move_to_end(key)
                return self._texts[key]
            with _named(where):
                text = self.template.follow(messages) if follows else self.template.begin(messages)
            ids = self.control.encode(text)
            self._texts[key] = ids
            if len(self._texts) > RENDERED_TEXTS:
                self._texts.popitem(last=False)
            return ids

    def _with_places(
        self, ids: tuple[int, ...], pixels: tuple[Pixels, ...], where: str
    ) -> tuple[int, ...]:
        """The ids with one image token for each feature of its image."""
        places = ids.count(self.image_token_id)
        if places != len(pixels):
            raise DataError(
                f"{where}{places} image placeholders in the rendered prompt for {len(pixels)} images; "
                "the chat template must handle images"
            )
        remaining = iter(pixels)
        out: list[int] = []
        for i in ids:
            out += [i] * next(remaining).tokens if i == self.image_token_id else [i]
        return tuple(out)

    @phase("images")
    def process_image(self, image: PilImage, where: str = "image") -> Pixels:
        """The model's input for an image. An image that was used recently, or whose pixels are still referenced, is not
        processed again. Thread-safe. Raises DataError, with `where` in the message, for an image that cannot be used."""
        if self.vision is None:
            raise DataError(f"{where}: this policy takes text only")
        image = upright_rgb(image, where)
        content = hashlib.sha256(self._settings)
        content.update(repr(image.size).encode())
        content.update(image.tobytes())
        key = content.hexdigest()
        with self._lock:
            cached = self._pixels.get(key) or self._referenced.get(key)
        if cached is not None:
            return cached
        try:
            pixels = self.vision.process(self.image_processor, image, key)
        except ValueError as e:  # such as an absurd aspect ratio
            raise DataError(f"{where} ({image.width} x {image.height} pixels): {e}") from None
        with self._lock:
            self._referenced[key] = pixels
            self._pixels.put(key, pixels, pixels.values.nbytes)
        return pixels


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Errors of the text say where it is."""
    try:
        yield
    except DataError as e:
        raise DataError(f"{where}{e}") from None
    except UnicodeEncodeError as e:
        around = e.object[max(e.start - 20, 0) : e.start + 20]
        raise DataError(
            f"{where}half of a surrogate pair, which is not a character, in {around!r}; correct it in the data"
        ) from None


def _special_ids(tokenizer: Any, markup: Collection[str]) -> frozenset[int]:
    """Special tokens, without this markup."""
    added = tokenizer.added_tokens_decoder
    special = {i for i, token in added.items() if token.special} | set(tokenizer.all_special_ids)
    return frozenset(special - {i for i, token in added.items() if token.content in markup})
