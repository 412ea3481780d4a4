"""COCO annotation files: a question for each category that a picture has, whose gold answer is its boxes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vlrft.data import Defect, read_row
from vlrft.data.coco_file import CocoFile, CocoImage, coco_files, read_coco_file, split_words
from vlrft.schema import DataError

from ..entry import BoxForm, Entry, Raw, Reading, Taken
from ..splits import YEAR
from ._places import refuse_columns

if TYPE_CHECKING:
    from ..options import Options


class Coco:
    """Pictures without objects are asked nothing. Boxes around crowds are left out."""

    name = "coco"
    doc = "COCO detection: a json object with images, annotations, categories"

    def recognises(self, raw: Raw) -> str:
        files = _files(raw)
        return (
            f"{files[0]} has images, annotations and categories" if files and not raw.head else ""
        )

    def read(self, raw: Raw, options: Options) -> Reading:
        refuse_columns(raw, options, self.name)
        files = _files(raw)
        if len(files) != 1:
            raise DataError(
                f"{raw.source.label}: {len(files)} annotation files for the {raw.name} split"
                f"{': ' + ', '.join(files[:5]) if files else ''}; name the one of each split, such as "
                "options.splits={train: instances_train2017}"
            )
        name = files[0]
        file = read_coco_file(raw.source, name)

        def entries() -> Iterator[Entry | Defect]:
            yield from file.defects
            for image in file.images:
                yield from _entries(raw, file, image)

        return Reading(
            entries=entries,
            kind="boxes",
            boxes=BoxForm(unit="pixels", corners="xyxy"),
            classes=(),
            taken=(
                Taken(role="question", place=f"{len(file.categories)} categories", why=name),
                Taken(role="gold answer", place="annotations.bbox", why="by category"),
                Taken(role="pictures", place="images.file_name", why=self.name),
            ),
        )


def _files(raw: Raw) -> list[str]:
    """The annotation files of the split."""
    files = coco_files(raw.source)
    if raw.split is None or len(files) == 1:
        return files
    return [name for name in files if raw.split in _words(name)]


def _words(name: str) -> set[str]:
    path = PurePosixPath(name)
    stem = path.stem
    parts = {*path.parts[:-1], stem, *stem.replace("-", "_").replace(".", "_").split("_")}
    return {*parts, *(YEAR.sub("", part) for part in parts), *split_words(name)}


def _entries(raw: Raw, file: CocoFile, image: CocoImage) -> Iterator[Entry | Defect]:
    objects = file.objects.get(image.id, ())
    for category in dict.fromkeys(one.category for one in objects if not one.crowd):
        label = f"{raw.name}/{image.id}/{category}"
        boxes = [list(o.box) for o in objects if o.category == category and not o.crowd]

        def make(
            label: str = label, category: str = category, boxes: list[list[float]] = boxes
        ) -> Entry:
            return Entry(
                id=label,
                question=f"Find every {category} in the picture.",
                pictures=(raw.finder.find(image.file, label),),
                size=image.size,
                answer=boxes,
                tags={"category": category},
                columns={"category": category},
            )

        yield read_row(label, make)


FORMAT = Coco()
