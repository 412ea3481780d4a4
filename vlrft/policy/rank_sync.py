"""When a policy's modules run while it samples: at once, or where ranks hold sharded weights, on all of them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from PIL import Image

from vlrft.distributed.ranks import Ranks
from vlrft.policy.chat import Chat
from vlrft.schema import IMAGE, Message, Prompt

T = TypeVar("T")
RunFiller = Callable[[bool], object]
"""Runs a short prompt through the modules, with an image or without, for nothing but its calls."""
SIDE = 56  # pixels of its image: a few patches of any vision tower


def filler_prompt(chat: Chat, with_images: bool) -> Prompt:
    """What a rank without work runs while others have some."""
    message = Message(role="user", content=(IMAGE,) if with_images else ("",))
    images = [Image.new("RGB", (SIDE, SIDE))] if with_images else []
    return chat.render((message,), images, name="what ranks without work run")


@runtime_checkable
class RankSync(Protocol):
    """`work` calls the embedding, the vision tower where it `with_images`, the decoder and the head, once each and in this order."""

    def run(self, work: Callable[[], T], *, with_images: bool, run_filler: RunFiller) -> T:
        """What `work` gives."""
        ...

    def finish(self, run_filler: RunFiller) -> None:
        """This rank has nothing more to run; comes back when none of them has."""
        ...


class Unsynchronised:
    """Each rank holds all weights, and runs what it likes."""

    def run(self, work: Callable[[], T], *, with_images: bool, run_filler: RunFiller) -> T:
        return work()

    def finish(self, run_filler: RunFiller) -> None:
        """Nobody waits."""


class RoundRobin:
    """Round by round: what any rank wants to run all run, those that want something else a short prompt.

    A round has two halves at the most, one without images and one with them, so that each rank goes on in each round.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks

    def run(self, work: Callable[[], T], *, with_images: bool, run_filler: RunFiller) -> T:
        found: list[T] = []
        for half in self._wanted(text=not with_images, images=with_images):
            if half == with_images:
                found.append(work())
            else:
                run_filler(half)
        return found[0]

    def finish(self, run_filler: RunFiller) -> None:
        while halves := self._wanted(text=False, images=False):
            for half in halves:
                run_filler(half)

    def _wanted(self, *, text: bool, images: bool) -> list[bool]:
        """The halves of the next round; True: with images."""
        counts = self.ranks.sum_each(text, images)
        return [half for half, count in zip((False, True), counts, strict=True) if count]
