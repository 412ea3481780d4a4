"""Prefetching of samples and their images."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from threading import Event, get_ident
from typing import Any

import pytest
from PIL import Image

from vlrft.schema import DataError, Sample
from vlrft.selection.prefetch import Prefetcher
from vlrft.selection.prompt_sampler import PromptSampler


class Split(Sequence[Sample]):
    """Samples of one image each, made on access; records by which thread."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.made: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        self.made.append((index, get_ident()))
        image = Image.new("RGB", (1, 1), (index, 0, 0))
        return Sample(id=f"s{index}", messages=(), images=(image,))


def test_announced_samples_are_made_once_by_threads_with_their_images() -> None:
    split, processed = Split(9), list[Any]()
    prefetcher = Prefetcher(split, lambda sample: processed.append(int(sample.id[1:])), 2)
    prefetcher.announce([4, 7])
    assert [prefetcher[7].id, prefetcher[4].id] == ["s7", "s4"]
    assert sorted(index for index, _ in split.made) == [4, 7]
    assert get_ident() not in {thread for _, thread in split.made}
    assert sorted(processed) == [4, 7]
    assert prefetcher[4].id == "s4"  # accessed once more: made again, in this thread
    assert split.made[-1] == (4, get_ident())
    prefetcher.close()


def test_pixels_are_held_until_the_next_draw_is_over() -> None:
    class Pixels:
        """Compared by identity."""

    alive: list[Any] = []

    def process(image: object) -> Pixels:
        made = Pixels()
        alive.append(weakref.ref(made))
        return made

    prefetcher = Prefetcher(Split(9), process, 1)
    prefetcher.announce([1])
    prefetcher[1]
    prefetcher.announce([2])  # the draw of 1 is over, its prompts are made now
    prefetcher[2]
    assert alive[0]() is not None
    prefetcher.announce([])
    assert alive[0]() is None
    prefetcher.close()


def test_an_earlier_announcement_is_dropped() -> None:
    go = Event()
    split = Split(9)
    prefetcher = Prefetcher(split, lambda image: go.wait(10), 1)
    prefetcher.announce([0, 1, 2])
    prefetcher.announce([3])
    go.set()
    assert prefetcher[3].id == "s3"
    assert not {1, 2} & {index for index, _ in split.made}
    prefetcher.close()


def test_an_image_that_cannot_be_processed_is_no_error_yet() -> None:
    def refuse(image: object) -> object:
        raise DataError("no picture")

    prefetcher = Prefetcher(Split(9), refuse, 1)
    prefetcher.announce([0])
    assert prefetcher[0].id == "s0"
    prefetcher.close()


def test_a_sample_that_cannot_be_made_is_an_error_on_access() -> None:
    class Broken(Split):
        def __getitem__(self, index: Any) -> Any:
            raise DataError(f"row {index} cannot be read")

    prefetcher = Prefetcher(Broken(9), id, 1)
    prefetcher.announce([0])
    with pytest.raises(DataError, match="row 0 cannot be read"):
        prefetcher[0]
    prefetcher.close()


def test_a_sampler_with_prefetching_draws_the_same() -> None:
    plain, split = PromptSampler(Split(10), seed=3), Split(10)
    sampler = PromptSampler(split, seed=3)
    sampler.prefetch(id, 2)
    for _ in range(7):
        assert [s.id for s in sampler.draw(4)] == [s.id for s in plain.draw(4)]
    assert sampler.state_dict() == plain.state_dict()
    not_prefetched = [index for index, thread in split.made if thread == get_ident()]
    assert len(not_prefetched) == 4  # the first draw, which was not announced
    sampler.close()
