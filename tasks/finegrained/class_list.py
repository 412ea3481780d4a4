"""The names of the classes: the lists of the four datasets, a list next to the data, and names as others spell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from vlrft.data import Source, read_file
from vlrft.data.class_names import ClassName
from vlrft.schema import DataError

VISUAL_RFT: Mapping[str, str] = {
    "flowers102": "oxford_flowers.txt",
    "pets37": "pets.txt",
    "fgvc_aircraft100": "fgvc_aircraft.txt",
    "cars196": "stanford_cars.txt",
}


@dataclass(frozen=True, kw_only=True)
class ClassList:
    """The classes of a dataset, label 0 first. `closed`: the list is the user's own, and any other name is an error."""

    names: Sequence[str]
    closed: bool

    @property
    def by_key(self) -> Mapping[str, str]:
        return _by_key(tuple(self.names))

    def spell(self, name: str) -> str | None:
        """The list's spelling of a name that may differ in case, in signs between its words, and in the place of its year;
        None for no class. The number of a class, as folders have it, counts from 1."""
        found = self.by_key.get(name_key(name)) or self.by_key.get(name_key(_year_first(name)))
        if found is None and name.isascii() and name.isdigit() and 0 < int(name) <= len(self.names):
            return self.names[int(name) - 1]
        return found

    def of_label(self, label: object) -> str:
        """The class of a cell: its number in the list, from 0, or its name. Raises DataError for any other cell, and for a
        number without a list next to the data."""
        text = str(label).strip()
        if isinstance(label, ClassName) or not (text.isascii() and text.isdigit()):
            return self.of_name(text)
        if not self.closed:
            raise DataError("labels are numbers: list the names in classes.txt, label 0 first")
        if int(text) < len(self.names):
            return self.names[int(text)]
        raise DataError(f"{text!r} is not a class of the dataset")

    def of_name(self, name: str) -> str:
        """The class of a name; one that is in no list stays as it is. Raises DataError where the list is the user's own."""
        found = self.spell(name)
        if found is None and (self.closed or not name):
            raise DataError(f"{name!r} is not a class of the dataset")
        return found or name


def official_classes(dataset: str) -> ClassList:
    """The names of a dataset, as Visual-RFT's prompts and graders have them."""
    return ClassList(names=_official(dataset), closed=False)


def read_classes(source: Source, dataset: str) -> ClassList:
    """The classes in the order of the labels, from `DATASET_classes.txt`, `classes.txt` or Visual-RFT's list of the source;
    the dataset's own names if it has no such file."""
    file_names = (f"{dataset}_classes.txt", "classes.txt", VISUAL_RFT[dataset])
    paths = [n for f in file_names for n in source.names() if PurePosixPath(n).name == f]
    for name in (*paths, *file_names):  # a single table may have its list next to it
        try:
            content = read_file(source, name)
        except DataError:
            continue
        try:
            lines = content.decode("utf-8").splitlines()
        except UnicodeDecodeError as e:
            raise DataError(f"{source.label}: {name}: not UTF-8 at byte {e.start}") from e
        return ClassList(names=[line.strip() for line in lines if line.strip()], closed=True)
    return official_classes(dataset)


def name_key(name: str) -> str:
    """The letters and digits of a class name, without case, for comparison."""
    return "".join(c for c in name.casefold() if c.isalnum())


def _year_first(name: str) -> str:
    """Stanford's `Audi TT RS Coupe 2012` as `2012 Audi TT RS Coupe`."""
    words = name.replace("_", " ").split()
    if len(words) > 1 and len(words[-1]) == 4 and words[-1].isdigit():
        return " ".join([words[-1], *words[:-1]])
    return name


@cache
def _official(dataset: str) -> tuple[str, ...]:
    text = (Path(__file__).parent / "classes" / f"{dataset}.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())


@cache
def _by_key(names: tuple[str, ...]) -> Mapping[str, str]:
    return {name_key(name): name for name in names}
