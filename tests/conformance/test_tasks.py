"""Packs pass the suite that task authors inherit: those that make their data, and five on small made data sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.fixtures.makers import counting, detection, geometry3k, geoqa, refcoco
from vlrft.testing.task import TaskConformance


class TestDigits(TaskConformance):
    name, split = "digits", "test"


class TestGridWorld(TaskConformance):
    name, split = "gridworld", "test"


class OnMadeData(TaskConformance):
    """A pack that reads files: a small data set in the form of the original."""

    data: ClassVar[Path]
    maker: Any

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def make_data(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.data = tmp_path_factory.mktemp(cls.name)
        cls.maker.make(cls.data)

    def options(self) -> Mapping[str, Any]:
        return {"data": str(self.data)}


class TestGeoqa(OnMadeData):
    name, split, maker = "geoqa", "test", geoqa

    def options(self) -> Mapping[str, Any]:
        return {"data": str(self.data / "raw")}  # images.zip beside it holds the same


class TestGeometry3k(OnMadeData):
    name, split, maker = "geometry3k", "test", geometry3k


class TestCounting(OnMadeData):
    name, split, maker = "counting", "test", counting


class TestRefcoco(OnMadeData):
    name, split, maker = "refcoco", "val", refcoco

    def options(self) -> Mapping[str, Any]:
        data, images = self.data / "rec_jsons_processed", self.data / "coco"
        return {"data": str(data), "images": str(images), "dataset": "all"}


class TestDetection(OnMadeData):
    name, split, maker = "detection", "test", detection

    def options(self) -> Mapping[str, Any]:
        categories = list(detection.CATEGORIES.values())
        return {"data": str(self.data / "coco"), "categories": categories, "ask": "all"}
