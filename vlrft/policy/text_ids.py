"""Conversations and answers -> token ids, without pixels: an image, and each run of a video, is one token."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from jinja2 import TemplateError

from vlrft.policy.chat_template import ChatTemplate
from vlrft.policy.families import VisionFamily
from vlrft.policy.places import write_videos
from vlrft.schema import DataError, Message
from vlrft.schema.short_message import first_line

RENDERED_TEXTS = 4096  # conversations whose token ids are kept
Rendering = tuple[bool, tuple[Message, ...], tuple[str, ...]]


class TextIds:
    """The token ids of a chat template's text; those of the latest conversations are kept. Thread-safe.

    Its methods raise DataError, with `where` before the message, for messages that the template cannot render and for text that
    cannot be encoded.
    """

    def __init__(self, template: ChatTemplate, vision: VisionFamily | None) -> None:
        self.template, self.vision = template, vision
        self._ids: OrderedDict[Rendering, tuple[int, ...]] = OrderedDict()
        self._lock = Lock()

    def conversation(
        self,
        messages: tuple[Message, ...],
        where: str,
        *,
        follows: bool = False,
        videos: tuple[str, ...] = (),
    ) -> tuple[int, ...]:
        """The ids of a rendered conversation, or with `follows` of the text that the messages add to one. `videos`: the text
        of each."""
        key = (follows, messages, videos)
        with self._lock:
            if key in self._ids:
                self._ids.move_to_end(key)
                return self._ids[key]
            with _located(where), _refusing(messages):
                text = self.template.follow(messages) if follows else self.template.begin(messages)
                text = write_videos(text, videos, self.vision)
            ids = self.template.control.encode(text)
            self._ids[key] = ids
            if len(self._ids) > RENDERED_TEXTS:
                self._ids.popitem(last=False)
            return ids

    def answer(self, text: str, where: str) -> tuple[int, ...]:
        """The ids of an assistant's words; of control tokens in them, tags and the families' markup have their own ids."""
        control = self.template.control
        with _located(where):
            (quoted,) = control.quote([text], control.in_answers)
        return control.encode(quoted)


@contextmanager
def _refusing(messages: Sequence[Message]) -> Iterator[None]:
    """Turns the error of a template that refuses the messages, such as Gemma's of a system message, into a DataError."""
    try:
        yield
    except TemplateError as e:
        roles = ", ".join(message.role for message in messages)
        raise DataError(
            f"the policy's chat template refuses this conversation (roles: {roles}): {first_line(e)}; let the task show "
            "other messages, or use another policy"
        ) from e


@contextmanager
def _located(where: str) -> Iterator[None]:
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
