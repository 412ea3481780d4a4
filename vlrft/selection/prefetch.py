"""Prefetching: samples are opened, and their images processed, while the model works on the previous step.

Threads do this: decoding, resizing and normalising release the interpreter's lock, and nothing has to be copied from
another process. Prefetching changes no result; samples that are not drawn after all are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, overload

from vlrft.schema import DataError, Sample


class Prefetcher(Sequence[Sample]):
    """The samples of a split; announced ones are ready when they are drawn."""

    def __init__(
        self, samples: Sequence[Sample], process: Callable[[Sample], object], threads: int
    ) -> None:
        """`process` computes and caches the pixels of a sample; it is called from several threads."""
        self.samples, self.process = samples, process
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="vlrft-images")
        self._waiting: dict[int, Future[tuple[Sample, object]]] = {}
        # Pixels of the samples drawn since the last announcement, and of those drawn before it: they are kept until
        # the prompts are made.
        self._drawn: list[object] = []
        self._previous: list[object] = []

    def announce(self, indices: Iterable[int]) -> None:
        """Starts to prepare the samples that will probably be drawn next; drops earlier announcements."""
        for future in self._waiting.values():
            future.cancel()
        self._previous, self._drawn = self._drawn, []
        self._waiting = {i: self._pool.submit(self._prepare, i) for i in dict.fromkeys(indices)}

    def _prepare(self, index: int) -> tuple[Sample, object]:
        sample = self.samples[index]
        with suppress(DataError):  # reported when the prompt is made
            return sample, self.process(sample)
        return sample, None

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
        self._drawn.append(pixels)
        return sample

    def close(self) -> None:
        """Ends the threads and drops their remaining work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def prefetching(
    samples: Sequence[Sample], process: Callable[[Sample], object], threads: int
) -> Iterator[Sequence[Sample]]:
    """A context with a `Prefetcher` of the samples; without threads, the samples themselves."""
    if not threads:
        yield samples
        return
    prefetcher = Prefetcher(samples, process, threads)
    try:
        yield prefetcher
    finally:
        prefetcher.close()
