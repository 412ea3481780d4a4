"""Images of a run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from PIL import Image

from vlrft.reporting.files import ImageStore
from vlrft.testing.small_policies import noise_image


def test_an_image_half_written_by_a_killed_run_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(image: Image.Image, path: Path, **_: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    images = ImageStore(tmp_path / "images")
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            images.save(noise_image(8, 8))
    with Image.open(tmp_path / images.save(noise_image(8, 8))) as back:
        assert back.tobytes() == noise_image(8, 8).tobytes()
    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", dies)
        images.save(noise_image(8, 8))  # is there: not written again
    assert images.save(noise_image(8, 8, seed=1)) != images.save(noise_image(8, 8))
    assert len(list((tmp_path / "images").glob("*.png"))) == 2


def test_images_are_stored_as_the_policy_sees_them(tmp_path: Path) -> None:
    images = ImageStore(tmp_path / "images")
    palettes = [Image.new("RGB", (4, 4), colour).quantize(4) for colour in ("red", "blue")]
    red, blue = map(images.save, palettes)
    with Image.open(tmp_path / red) as back:
        assert back.getcolors() == [(16, (255, 0, 0))]
    with Image.open(tmp_path / blue) as back:
        assert back.getcolors() == [(16, (0, 0, 255))]
    with Image.open(tmp_path / images.save(Image.new("CMYK", (4, 4)))) as back:
        assert back.getcolors() == [(16, (255, 255, 255))]
    with Image.open(tmp_path / images.save(Image.new("RGBA", (4, 4)))) as back:
        assert back.getcolors() == [(16, (255, 255, 255))]


def test_an_rgb_image_is_named_by_its_mode_size_and_pixels(tmp_path: Path) -> None:
    """Folders of earlier runs have these names."""
    image = noise_image(8, 8)
    digest = hashlib.sha256(b"RGB(8, 8)" + image.tobytes()).hexdigest()
    assert ImageStore(tmp_path / "images").save(image) == f"images/{digest[:16]}.png"
