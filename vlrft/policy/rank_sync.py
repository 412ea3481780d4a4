"""When a policy's modules run during sampling: at once or, where the weights are sharded, on all ranks together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from PIL import Image

from vlrft.distributed.ranks import Ranks
from vlrft.policy.chat import Chat
from vlrft.schema import IMAGE, Message, Prompt

T = TypeVar("T")
RunFiller = Callable[[bool], object]
"""Runs a short prompt, with an image or without, through the modules; the result is discarded."""
SIDE = 56  # side of the filler image in pixels: a few patches of any vision model


def filler_prompt(chat: Chat, with_image: bool) -> Prompt:
    """The prompt that a rank without work runs while other ranks work."""
    message = Message(role="user", content=(IMAGE,) if with_image else ("",))
    images = [Image.new("RGB", (SIDE, SIDE))] if with_image else []
    return chat.render((message,), images, name="filler prompt")


class RankSync(Protocol):
    """Decides when a rank's work runs. `work` calls the embedding, the vision model if it has images, the decoder and the
    head, once each and in this order."""

    def run(self, work: Callable[[], T], *, with_images: bool, run_filler: RunFiller) -> T:
        """The result of `work`."""
        ...

    def finish(self, run_filler: RunFiller) -> None:
        """Called when this rank has no more work; returns when no rank has."""
        ...


class Unsynchronised:
    """Every rank has all weights and runs its work at once."""

    def run(self, work: Callable[[], T], *, with_images: bool, run_filler: RunFiller) -> T:
        return work()

    def finish(self, run_filler: RunFiller) -> None:
        """Does nothing: no rank waits for another."""


class RoundRobin:
    """Work in rounds: all ranks run the same modules; ranks without work run a filler prompt.

    A round has at most two halves, one without images and one with them, so that each rank's work is done in each round.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks

    def run(self, work: Callable[[], T], *, with_images: bool, run_filler: RunFiller) -> T:
        results: list[T] = []
        for half in self._halves(text=not with_images, images=with_images):
            if half == with_images:
                results.append(work())
            else:
                run_filler(half)
        return results[0]

    def finish(self, run_filler: RunFiller) -> None:
        while halves := self._halves(text=False, images=False):
            for half in halves:
                run_filler(half)

    def _halves(self, *, text: bool, images: bool) -> list[bool]:
        """The halves of the next round, where this rank has work with `text` alone or with `images`; True: with images."""
        counts = self.ranks.sum_each(text, images)
        return [half for half, count in zip((False, True), counts, strict=True) if count]
