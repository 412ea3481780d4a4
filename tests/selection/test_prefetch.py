"""What is got ready before it is asked for."""

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
    """Samples of one image each that are made when they are asked for; remembers by whom."""

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
    split, seen = Split(9), list[Any]()
    ahead = Prefetcher(split, lambda image: seen.append(image.tobytes()[0]), 2)
    ahead.announce([4, 7])
    assert [ahead[7].id, ahead[4].id] == ["s7", "s4"]
    assert sorted(index for index, _ in split.made) == [4, 7]
    assert get_ident() not in {thread for _, thread in split.made}
    assert sorted(seen) == [4, 7]
    assert ahead[4].id == "s4"  # asked for once more: made anew, here
    assert split.made[-1] == (4, get_ident())
    ahead.close()


def test_pixels_are_held_until_the_next_draw_is_over() -> None:
    class Pixels:
        """Can be told by identity."""

    alive: list[Any] = []

    def process(image: object) -> Pixels:
        made = Pixels()
        alive.append(weakref.ref(made))
        return made

    ahead = Prefetcher(Split(9), process, 1)
    ahead.announce([1])
    ahead[1]
    ahead.announce([2])  # the draw that took 1 is over, its prompts are made now
    ahead[2]
    assert alive[0]() is not None
    ahead.announce([])
    assert alive[0]() is None
    ahead.close()


def test_a_wrong_guess_costs_nothing_but_its_time_and_is_given_up() -> None:
    go = Event()
    split = Split(9)
    ahead = Prefetcher(split, lambda image: go.wait(10), 1)
    ahead.announce([0, 1, 2])
    ahead.announce([3])
    go.set()
    assert ahead[3].id == "s3"
    assert not {1, 2} & {index for index, _ in split.made}
    ahead.close()


def test_an_image_that_cannot_be_used_is_left_to_the_prompt() -> None:
    def refuse(image: object) -> object:
        raise DataError("no picture")

    ahead = Prefetcher(Split(9), refuse, 1)
    ahead.announce([0])
    assert ahead[0].id == "s0"
    ahead.close()


def test_a_sample_that_cannot_be_made_is_an_error_when_it_is_asked_for() -> None:
    class Broken(Split):
        def __getitem__(self, index: Any) -> Any:
            raise DataError(f"row {index} cannot be read")

    ahead = Prefetcher(Broken(9), id, 1)
    ahead.announce([0])
    with pytest.raises(DataError, match="row 0 cannot be read"):
        ahead[0]
    ahead.close()


def test_a_sampler_that_gets_ahead_draws_the_same() -> None:
    plain, split = PromptSampler(Split(10), seed=3), Split(10)
    sampler = PromptSampler(split, seed=3)
    sampler.prefetch(id, 2)
    for _ in range(7):
        assert [s.id for s in sampler.draw(4)] == [s.id for s in plain.draw(4)]
    assert sampler.state_dict() == plain.state_dict()
    here = [index for index, thread in split.made if thread == get_ident()]
    assert len(here) == 4  # of the first draw, which nobody had announced
    sampler.close()
