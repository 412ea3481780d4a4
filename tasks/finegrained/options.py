"""The options of the pack, and an image with its class as every reader gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from vlrft.data import Picture
from vlrft.schema.ranges import Positive, Seed

Name = Literal["flowers102", "pets37", "fgvc_aircraft100", "cars196"]
HUB_IDS: Mapping[str, str] = {
    "flowers102": "laolao77/ViRFT_CLS_flower_4_shot",
    "pets37": "laolao77/ViRFT_CLS_pets37_4shot",
    "fgvc_aircraft100": "laolao77/ViRFT_CLS_fgvc_aircraft_4_shot",
    "cars196": "laolao77/ViRFT_CLS_car196_4shot",
}
KINDS: Mapping[str, tuple[str, str]] = {
    "flowers102": ("a plant", "species of the plant"),
    "pets37": ("a pet", "species of the pet"),
    "fgvc_aircraft100": ("an aircraft", "model of the aircraft"),
    "cars196": ("a car", "model of the car"),
}
"""Dataset -> a thing of it, and the attribute that the prompt asks for."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The dataset, its source, and the number of examples."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    dataset: Name = "flowers102"
    """The set of classes, which chooses the hub's training set and the names in the prompt."""
    data: str | None = None
    """A folder, zip, table or hub id; Visual-RFT's training set on the hub unless given. The test split is not there."""
    k: Positive | None = 4
    """Training images of each class; None: all. Used when the data are prepared: a prepared folder keeps its images."""
    seed: Seed = 0
    """Of the draw of the training images."""
    prompt: Literal["clean", "released"] = "clean"
    """clean: asks for the form that the strict rewards read; released: as the authors' code asks."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """An image with the name of its class."""

    id: str
    picture: Picture
    name: str
    problem: str = ""
