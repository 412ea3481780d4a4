"""Visual-RFT's lists of test images: read without loading their pickles."""

from __future__ import annotations

import io
import pickle
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fixtures.published.forms import write
from tests.fixtures.published.record import load_records
from tests.tasks.loaded import load_samples
from vlrft.schema import DataError

visual_rft: Any = import_module("vlrft.tasks.finegrained.visual_rft")
records = load_records()


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (self.path, "harm")


def saved(tree: Any) -> bytes:
    file = io.BytesIO()
    torch.save(tree, file)
    return file.getvalue()


def test_labels_are_those_that_torch_loads() -> None:
    numbers = torch.arange(50, 150)  # labels are views of one storage, as a batch gives them
    predictions = [
        {f"/data/{k}.jpg": {"label": numbers[k], "pred_logits": torch.zeros(10)}}
        for k in range(100)
    ]
    content = saved(predictions)
    loaded = torch.load(io.BytesIO(content))
    wanted = [(path, int(v["label"])) for item in loaded for path, v in item.items()]
    assert list(visual_rft.read_labels(content)) == wanted
    assert wanted[7] == ("/data/7.jpg", 57)


def test_the_list_of_classes_next_to_it_names_them_or_the_data_set_s_own(tmp_path: Path) -> None:
    copy = write(records["pets_visual_rft"], "folder", tmp_path)
    assert copy.data is not None
    for _ in range(2):
        samples = load_samples("finegrained", "test", Path(copy.data), dataset="pets37")
        assert [s.answer for s in samples] == ["abyssinian", "american_bulldog"] * 2
        assert samples[0].id == "image_00000.jpg"
        for path in Path(copy.data).rglob("pets.txt"):
            path.unlink()


def test_nothing_that_a_pickle_names_is_called(tmp_path: Path) -> None:
    harm = tmp_path / "harm.txt"
    bad = {"a.jpg": {"label": torch.tensor(1), "more": Harmful(harm)}}
    assert list(visual_rft.read_labels(saved([bad]))) == [("a.jpg", 1)]
    (tmp_path / "pets.pth").write_bytes(saved([{"a.jpg": {"label": Harmful(harm)}}]))
    with pytest.raises(
        DataError, match=r"pets\.pth is not a list of Visual-RFT.*split_zhou_\*\.json"
    ):
        load_samples("finegrained", "test", tmp_path, dataset="pets37")
    assert not harm.exists()


def packed(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK",
        pickle.dumps([{"a": 1}]),
        packed(b""),
        packed(b"."),
        packed(b"t."),
        packed(b"h\x07."),
        packed(b"]" * 10),
        packed(pickle.dumps([{"a.jpg": {"label": 1}}], protocol=2)),
        packed(pickle.dumps([{"a.jpg": 1, "b.jpg": 2}], protocol=2)),
        packed(pickle.dumps([1.5], protocol=2)),
        saved([{"a.jpg": {"label": torch.tensor(1.5)}}]),
        saved([{"a.jpg": {"label": torch.tensor([1, 2])}}]),
        saved({"weights": torch.zeros(3)}),
    ],
)
def test_another_file_of_that_name_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "pets.pth").write_bytes(content)
    with pytest.raises(DataError, match=r"pets\.pth is not a list of Visual-RFT \("):
        load_samples("finegrained", "test", tmp_path, dataset="pets37")
