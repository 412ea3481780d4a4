"""Images of a run."""

from __future__ import annotations

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
