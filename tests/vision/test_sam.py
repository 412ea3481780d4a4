"""Boxes to masks through a SAM model: equal to transformers' own, and one line of error for any other model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Tiny
from tests.fakes.tiny_sam import masks_of, save
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import noise_image
from vlrft.vision.boxes import Box
from vlrft.vision.sam import BATCH, Segmenter


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(tmp_path_factory.mktemp("sam"))


def test_masks_are_those_of_transformers(folder: str) -> None:
    """Wide and high pictures, and ones larger than the model's; more than a batch, with one box and with several."""
    pictures = [noise_image(50, 40), noise_image(30, 60), noise_image(200, 90)] * 2
    boxes: list[list[Box]] = [
        [(1.0, 2.0, 30.0, 30.0)],
        [(3.5, 3.0, 20.0, 50.0), (0.0, 0.0, 30.0, 60.0), (5.0, 5.0, 6.0, 6.0)],
        [(0.0, 0.0, 199.0, 90.0), (10.25, 3.0, 90.0, 80.0)],
    ] * 2
    assert len(pictures) > BATCH
    segmenter = Segmenter(folder, device="cpu")
    predicted = list(segmenter.masks(list(zip(pictures, boxes, strict=True))))
    assert [m.shape for m in predicted[:3]] == [(1, 40, 50), (3, 60, 30), (2, 90, 200)]
    for picture, picture_boxes, masks in zip(pictures, boxes, predicted, strict=True):
        assert masks.dtype == np.bool_
        np.testing.assert_array_equal(masks, masks_of(picture, [*picture_boxes]))
    assert any(0 < m.mean() < 1 for m in predicted)
    assert list(segmenter.masks([])) == []


def test_the_weights_are_loaded_once_on_first_use(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import SamModel

    loads: list[str] = []
    real: Any = SamModel.from_pretrained

    def count_load(source: str, **options: object) -> object:
        loads.append(source)
        return real(source, **options)

    monkeypatch.setattr(SamModel, "from_pretrained", count_load)
    segmenter = Segmenter(folder, device="cpu")
    assert loads == []
    for _ in range(2):
        list(segmenter.masks([(noise_image(20, 20), [(0.0, 0.0, 9.0, 9.0)])]))
    assert loads == [folder]


def one_line(caught: pytest.ExceptionInfo[ConfigError]) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_another_model_is_one_line_of_error(tiny: Tiny, tmp_path: Path) -> None:
    tiny("qwen2_vl").save(tmp_path / "policy")
    with pytest.raises(ConfigError) as caught:
        Segmenter(str(tmp_path / "policy"))
    assert "policy: not a SAM model (its model_type is qwen2_vl); use one such as" in one_line(
        caught
    )
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        with pytest.raises(ConfigError) as caught:
            Segmenter(str(tmp_path / name))
        assert f"{name}: no SAM model can be loaded from it" in one_line(caught)


def test_an_incomplete_folder_is_one_line_of_error(tmp_path: Path) -> None:
    prompts = [(noise_image(20, 20), [(0.0, 0.0, 9.0, 9.0)])]
    for name in ("model.safetensors", "processor_config.json"):
        folder = Path(save(tmp_path / name.split(".")[0]))
        (folder / name).unlink()
        segmenter = Segmenter(str(folder), device="cpu")
        with pytest.raises(ConfigError) as caught:
            list(segmenter.masks(prompts))
        assert "no SAM model can be loaded from it" in one_line(caught)
    folder = Path(save(tmp_path / "other"))
    config = json.loads((folder / "config.json").read_text())
    config["vision_config"]["num_hidden_layers"] = 2
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ConfigError, match=r"other: \d+ weights are missing, such as vision_encoder"
    ):
        list(Segmenter(str(folder), device="cpu").masks(prompts))
