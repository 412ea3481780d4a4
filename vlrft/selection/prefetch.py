"""Samples that are opened, and their images processed, while the model works on the step before.

Threads do it: decoding, resizing and normalising let go of the interpreter's lock, and nothing has to be copied from
another process. What they do ahead changes no result; a guess that was wrong is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, overload

from vlrft.schema import DataError, Sample

if TYPE_CHECKING:
    from PIL.Image import Image


class Prefetcher(Sequence[Sample]):
    """A split's samples; those that were announced come without a wait."""

    def __init__(
        self, samples: Sequence[Sample], process: Callable[[Image], object], threads: int
    ) -> None:
        """`process`: what makes and keeps an image's pixels, from any thread."""
        self.samples, self.process = samples, process
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="vlrft-images")
        self._waiting: dict[int, Future[tuple[Sample, list[object]]]] = {}
        self._taken: list[list[object]] = []  # pixels of the samples that were asked for since
        self._held: list[list[object]] = []  # and of those before, until their prompts are made

    def announce(self, indices: Iterable[int]) -> None:
        """These are probably asked for next; others that were announced are given up."""
        for future in self._waiting.values():
            future.cancel()
        self._held, self._taken = self._taken, []
        self._waiting = {i: self._pool.submit(self._ready, i) for i in dict.fromkeys(indices)}

    def _ready(self, index: int) -> tuple[Sample, list[object]]:
        sample = self.samples[index]
        with suppress(DataError):  # an image that cannot be used is named where its prompt is made
            return sample, [self.process(image) for image in sample.images]
        return sample, []

    def __len__(self) -> int:
        return len(self.samples)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...
    def __getitem__(self, index: int | slice) -> Any:
        future = self._waiting.pop(index, None) if isinstance(index, int) else None
        if future is None:
            return self.samples[index]
        sample, pixels = future.result()
        self._taken.append(pixels)
        return sample

    def close(self) -> None:
        """Ends the threads; what they had still to do is given up."""
        self._pool.shutdown(wait=False, cancel_futures=True)
