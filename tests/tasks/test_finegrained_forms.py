"""The published forms of the four fine-grained datasets: class names as others spell them, the authors' files, and CoOp's lists."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fixtures.published.forms import write
from tests.fixtures.published.record import load_records
from tests.tasks.loaded import SHARED, assert_gold_earns_all, load_samples, needs_shared
from vlrft.data import open_source
from vlrft.data.class_names import ClassName
from vlrft.plugins.find import find_task
from vlrft.schema import DataError
from vlrft.testing.small_policies import noise_image

FIRST = {  # the classes of label 0 and 1, as Visual-RFT spells them
    "flowers102": {"pink primrose", "hard-leaved pocket orchid"},
    "pets37": {"abyssinian", "american_bulldog"},
    "fgvc_aircraft100": {"707-320", "727-200"},
    "cars196": {"2000 AM General Hummer SUV", "2012 Acura RL Sedan"},
}
records = load_records()
class_list: Any = import_module("vlrft.tasks.finegrained.class_list")
official_classes = class_list.official_classes


@pytest.mark.parametrize(
    "name",
    ["pets_official", "aircraft_official", "flowers_official", "cars_official", "pets_coop", "flowers_coop", "cars_coop"],
)  # fmt: skip
def test_the_authors_files_and_coop_s_lists_give_the_classes_of_visual_rft(
    name: str, tmp_path: Path
) -> None:
    copy = write(records[name], "folder", tmp_path)
    assert copy.data is not None
    options: Mapping[str, Any] = records[name].options
    for split, count in (("train", 8), ("test", 4)):
        samples = load_samples("finegrained", split, Path(copy.data), k=None, **options)
        more = 2 if name == "aircraft_official" and split == "train" else 0  # train and val
        assert len(samples) == count + more
        assert {s.answer for s in samples} == FIRST[str(options["dataset"])]
        assert_gold_earns_all("finegrained", samples)


def test_names_are_found_however_others_spell_them() -> None:
    spelt = {
        "pets37": {"Abyssinian": "abyssinian", "american bulldog": "american_bulldog"},
        "flowers102": {"colt's foot": "colts foot", "Globe Flower": "globe-flower", "21": "fire lily"},
        "cars196": {
            "am general hummer suv 2000": "2000 AM General Hummer SUV",
            "Ram C-V Cargo Van Minivan 2012": "2012 Ram C/V Cargo Van Minivan",
            "Audi_TT_RS_Coupe_2012": "2012 Audi TT RS Coupe",
        },
        "fgvc_aircraft100": {"F-16A-B": "F-16A/B", "F/A-18": "F/A-18"},
    }  # fmt: skip
    for dataset, names in spelt.items():
        classes = official_classes(dataset)
        assert {name: classes.spell(name) for name in names} == names
        assert [classes.spell(name) for name in ("", "cat", "0", "197", "1e2")] == [None] * 5
        assert len(classes.by_key) == len(classes.names)


@needs_shared
@pytest.mark.parametrize("dataset", FIRST)
def test_the_shipped_lists_are_those_of_visual_rft(dataset: str) -> None:
    published = (SHARED / f"classification/{dataset}_classes.txt").read_text("utf-8")
    assert list(official_classes(dataset).names) == published.splitlines()


def test_a_number_that_names_a_class_counts_from_one_and_a_label_from_zero(tmp_path: Path) -> None:
    """Mirrors of the flowers name their classes by the numbers of the authors' folders: label 1 is category 10."""
    classes = official_classes("flowers102")
    assert classes.of_label(ClassName("10")) == "globe thistle"
    with pytest.raises(DataError, match=r"list the names in classes\.txt"):
        classes.of_label(10)
    (tmp_path / "oxford_flowers.txt").write_text("\n".join(classes.names))
    listed = class_list.read_classes(open_source(tmp_path), "flowers102")
    assert (listed.of_label(10), listed.of_label("10")) == ("snapdragon", "snapdragon")
    assert listed.of_label(ClassName("10")) == "globe thistle"


def write_labelled(folder: Path, **labels: list[str]) -> None:
    noise_image(8, 8).save(folder / "x.png")
    picture = {"bytes": (folder / "x.png").read_bytes(), "path": None}
    count = len(next(iter(labels.values())))
    pq.write_table(pa.table({"image": [picture] * count, **labels}), folder / "train.parquet")


def test_classes_of_one_s_own_are_for_the_task_table(tmp_path: Path) -> None:
    for column in ("solution", "label", "class"):
        write_labelled(tmp_path, **{column: ["cat", "dog", "cat"]})
        with pytest.raises(
            DataError, match=r"'cat', 'dog' are no classes of flowers102; .*vlrft train table"
        ):
            load_samples("finegrained", "train", tmp_path, k=1)


def test_a_solution_keeps_its_spelling_and_a_name_of_no_list_is_noted(tmp_path: Path) -> None:
    write_labelled(tmp_path, solution=["Persian", "<answer>pug</answer>", "Tabby"])
    samples: Any = load_samples("finegrained", "train", tmp_path, k=1, dataset="pets37")
    assert [s.answer for s in samples] == ["Persian", "pug", "Tabby"]
    (note,) = samples.notes
    assert note.startswith("1 of 3 class names are none of pets37's, and kept as they are: 'Tabby'")


def test_the_authors_test_of_the_flowers_is_not_that_of_the_published_results(
    tmp_path: Path,
) -> None:
    copy = write(records["flowers_official"], "folder", tmp_path)
    assert copy.data is not None
    samples: Any = load_samples("finegrained", "test", Path(copy.data))
    assert "the published results are of the 2,463" in samples.notes[0]


def test_pictures_of_a_name_are_those_of_the_split_s_folder(tmp_path: Path) -> None:
    """Stanford's cars_train/ and cars_test/ number their pictures from 00001.jpg."""
    for k, folder in enumerate(("cars_train", "cars_test")):
        (tmp_path / folder).mkdir()
        noise_image(8 + k, 8).save(tmp_path / folder / "00001.jpg")
    (tmp_path / "cars196_test.jsonl").write_text(
        '{"image": "00001.jpg", "class": "2012 Audi S5 Coupe"}\n'
    )
    (sample,) = load_samples("finegrained", "test", tmp_path, dataset="cars196")
    assert sample.images[0].size == (9, 8)


@pytest.mark.parametrize("content", [b"", b"MATLAB 5.0 MAT-file, cut", b"\x00" * 200])
def test_a_matlab_file_that_cannot_be_read_is_named(content: bytes, tmp_path: Path) -> None:
    copy = write(records["flowers_official"], "folder", tmp_path)
    assert copy.data is not None
    folder = Path(copy.data)
    (folder / "setid.mat").write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read tstid of setid\.mat"):
        load_samples("finegrained", "test", folder)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[]", "has no list 'test'"),
        ('{"test": [["a.jpg", 0]]}', "is not a path, a label and a name"),
        ("{", "not JSON"),
    ],
)
def test_a_list_of_coop_that_is_broken_is_named(content: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "split_zhou_OxfordPets.json").write_text(content)
    with pytest.raises(DataError, match=rf"split_zhou_OxfordPets\.json.*{problem}"):
        load_samples("finegrained", "test", tmp_path, dataset="pets37")


def test_a_folder_with_none_of_the_forms_names_them(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/1.jpg").touch()
    (tmp_path / "notes.txt").touch()
    task = find_task("finegrained")
    with pytest.raises(DataError) as caught:
        task.load("test", task.options(dataset="pets37", data=str(tmp_path)))
    for form in (
        "ViRFT_CLS_",
        "split_zhou_*.json",
        "annotations/trainval.txt",
        "pets.pth",
        "SPLIT/CLASS/*.jpg",
    ):
        assert form in str(caught.value)
    assert "setid.mat" not in str(caught.value)
    assert str(caught.value).endswith("found images/ (1 file), notes.txt")
