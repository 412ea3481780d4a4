"""Messages and images -> token ids and pixels, and ids -> text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL.Image import Image as PilImage

from vlrft.distributed.phases import phase
from vlrft.memory.limits import PIXEL_CACHE_BYTES
from vlrft.policy.chat_template import ChatTemplate
from vlrft.policy.control_tokens import ControlTokens
from vlrft.policy.families import VisionFamily, answer_markup, shown_markup
from vlrft.policy.pixel_inputs import PixelInputs, VideoMeasure
from vlrft.policy.places import fill_places, slot_texts, video_texts
from vlrft.policy.text_ids import TextIds
from vlrft.schema import (
    IMAGE,
    VIDEO,
    DataError,
    Frames,
    Message,
    Pixels,
    Prompt,
    Resize,
    Sample,
    Slot,
)
from vlrft.schema.sample import count_slots


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
        video_token_id: int | None = None,
        video_processor: Callable[[], Any] | None = None,
        frame_bounds: tuple[int | None, int | None] = (None, None),
        max_prompt_pixels: int | None = None,
        cache_bytes: int = PIXEL_CACHE_BYTES,
    ) -> None:
        """`vision`: the family whose image processor it is. `image_token_id`: the model's; None: that of the family's
        `image_token`. `vocab_size`: the model's. `end_ids`: in addition to the tokenizer's. `processor_class`: written to
        saved files, so that `AutoProcessor` finds it. `video_token_id`: the model's. The other
        arguments: see `PixelInputs`.

        Raises ConfigError for `max_prompt_pixels` and an image processor without bounds.
        """
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        self.vision = vision
        self.max_prompt_pixels = max_prompt_pixels
        if vision is not None and image_token_id is None:
            image_token_id = tokenizer.convert_tokens_to_ids(vision.image_token)
        self.image_token_id = image_token_id
        self.video_token_id = video_token_id
        self.processor_class = processor_class
        self.end_id: int = tokenizer.eos_token_id
        self.end_ids = frozenset([self.end_id, *end_ids])
        self.pad_id: int = self.end_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.special_ids = _special_ids(tokenizer, shown_markup())
        never = _special_ids(tokenizer, answer_markup())
        unknown = set(range(vocab_size or 0)).difference(tokenizer.get_vocab().values())
        self.banned_ids = never.union(unknown) - self.end_ids
        self.control = ControlTokens(tokenizer)
        self.template = ChatTemplate(tokenizer, self.control, slot_texts(vision))
        self._text_ids = TextIds(self.template, vision)
        self.pixels: PixelInputs | None = None
        if vision is not None:
            self.pixels = PixelInputs(
                vision,
                image_processor,
                max_prompt_pixels=max_prompt_pixels,
                cache_bytes=cache_bytes,
                video_processor=video_processor,
                frame_bounds=frame_bounds,
            )

    @property
    def place_tokens(self) -> list[str]:
        """The special tokens in place of images and of videos; empty for a text-only policy."""
        ids = [i for i in (self.image_token_id, self.video_token_id) if i is not None]
        tokens: list[str] = self.tokenizer.convert_ids_to_tokens(list(dict.fromkeys(ids)))
        return tokens

    @property
    def resize(self) -> Resize | None:
        """How the only image of a prompt is resized; None for a text-only policy."""
        return self.resize_of(1)

    def resize_of(self, images: int) -> Resize | None:
        """How each of several images of a prompt is resized. Raises DataError where they do not fit into
        `policy.max_prompt_pixels`."""
        return None if self.pixels is None else self.pixels.resize(images)

    @phase("render")
    def render(
        self,
        messages: Sequence[Message],
        images: Sequence[PilImage] = (),
        videos: Sequence[Frames] = (),
        *,
        name: str = "",
    ) -> Prompt:
        """The conversation up to the policy's next turn. `name` (a sample's id) is used in error messages.

        Raises DataError when images and IMAGE slots, or videos and VIDEO slots, differ in number, or one cannot be read.
        """
        where = f"{name}: " if name else ""
        pixels = self._pixels_of(messages, images, videos, where)
        ids = self._text_ids.conversation(tuple(messages), where, videos=video_texts(pixels))
        return self._with_pixels(ids, pixels, where)

    def process(self, sample: Sample) -> tuple[Pixels, ...]:
        """The pixels of a sample's prompt, which `render` then finds in the cache. Thread-safe. Raises DataError as `render`."""
        videos = () if self.pixels is None else self.pixels.process_videos(sample.shown_videos)
        return (*self.process_images(sample.shown_images), *videos)

    def process_images(self, images: Sequence[PilImage], where: str = "") -> tuple[Pixels, ...]:
        """The pixels of the images of a prompt; see `PixelInputs.process`."""
        if self.pixels is None:
            return ()
        return self.pixels.process(images, where)

    def count_text_tokens(
        self, messages: Sequence[Message], *, name: str = "", videos: tuple[str, ...] = ()
    ) -> int:
        """The number of tokens of `render`'s prompt if each image, and each run of a video, were one token. `videos`: the text
        of each; none: each is one run. Raises DataError as `render`."""
        where = f"{name}: " if name else ""
        return len(self._text_ids.conversation(tuple(messages), where, videos=videos))

    def video_measure(self) -> VideoMeasure:
        """The tokens and the text of a video in a prompt; see `PixelInputs.video_measure`. Raises DataError for a policy that takes
        none."""
        if self.pixels is None:
            raise DataError("a video, but this policy takes text only")
        return self.pixels.video_measure()

    @phase("render")
    def follow(
        self,
        last: Sequence[int],
        messages: Sequence[Message],
        images: Sequence[PilImage] = (),
        videos: Sequence[Frames] = (),
        *,
        name: str = "",
    ) -> Prompt:
        """The tokens to append after the policy's answer `last`: an end-of-turn token if it lacks one, the new messages,
        and the opening of the policy's next turn. Raises DataError as `render`."""
        where = f"{name}: " if name else ""
        pixels = self._pixels_of(messages, images, videos, where)
        ids = self._text_ids.conversation(
            tuple(messages), where, follows=True, videos=video_texts(pixels)
        )
        if last and last[-1] in self.end_ids and ids and ids[0] in (last[-1], self.end_id):
            ids = ids[1:]  # another token here, such as a role's name, also opens the next turn
        return self._with_pixels(ids, pixels, where)

    def _pixels_of(
        self,
        messages: Sequence[Message],
        images: Sequence[PilImage],
        videos: Sequence[Frames],
        where: str,
    ) -> tuple[Pixels, ...]:
        """The pixels of images and videos in the order of their places. Raises DataError where these do not fit."""
        for slot, given in ((IMAGE, images), (VIDEO, videos)):
            slots, kind = count_slots(messages, slot), slot.value
            if slots != len(given):
                raise DataError(
                    f"{where}{slots} {kind} slots in the messages, but {len(given)} {kind}s"
                )
            if slots and self.pixels is None:
                article = "an" if slot is IMAGE else "a"
                raise DataError(f"{where}{article} {kind}, but this policy takes text only")
        if self.pixels is None:
            return ()
        pixels = {
            IMAGE: iter(self.process_images(images, where)),
            VIDEO: iter(self.pixels.process_videos(videos, where)),
        }
        parts = (part for message in messages for part in message.content)
        return tuple(next(pixels[part]) for part in parts if isinstance(part, Slot))

    def _with_pixels(self, ids: tuple[int, ...], pixels: tuple[Pixels, ...], where: str) -> Prompt:
        """The ids with as many tokens for images and videos as these have features."""
        if self.vision is None:
            return Prompt(ids=ids)
        try:
            places = fill_places(ids, pixels, self.image_token_id, self.video_token_id)
        except DataError as e:
            raise DataError(f"{where}{e}") from None
        return Prompt(ids=places, images=pixels)

    def answer_ids(self, text: str, *, name: str = "") -> tuple[int, ...]:
        """An assistant's answer with the token that ends its turn. Of control tokens in the text, tags and the families'
        markup have their own ids. Raises DataError, with `name` in the message, for text that cannot be encoded."""
        return (*self._text_ids.answer(text, f"{name}: " if name else ""), self.end_id)

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
        videos = None if self.pixels is None else self.pixels.video_processor
        if videos is not None:
            videos.save_pretrained(path)


def _special_ids(tokenizer: Any, markup: Collection[str]) -> frozenset[int]:
    """Special tokens, without this markup."""
    added = tokenizer.added_tokens_decoder
    special = {i for i, token in added.items() if token.special} | set(tokenizer.all_special_ids)
    return frozenset(special - {i for i, token in added.items() if token.content in markup})
