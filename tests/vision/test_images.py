from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from PIL import Image

from vlrft.schema import DataError
from vlrft.testing.small_policies import noise_image
from vlrft.vision.images import upright_rgb


def test_an_image_file_is_read_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside: list[int] = []
    most: list[int] = []

    def load(image: Any) -> None:
        if "read" not in image.info:
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)  # another thread could read it meanwhile
            inside.pop()
            image.info["read"] = True

    image = noise_image(8, 8)
    monkeypatch.setattr(Image.Image, "load", load)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: upright_rgb(image), range(4)))
    assert most == [1]


def test_an_error_without_message_is_named_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(image: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Image.Image, "load", load)
    with pytest.raises(DataError, match="picture 3 cannot be read: AssertionError"):
        upright_rgb(noise_image(8, 8), "picture 3")
