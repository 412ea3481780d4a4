"""Formats of other tools that the table reads without a word from the user, from rows that are recorded with their source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.foreign_rows import NAMES, read_record, write_foreign
from tests.fixtures.makers import detection
from tests.fixtures.makers._pictures import encode, photograph
from tests.fixtures.makers._tables import write_bytes, write_json, write_jsonl
from vlrft.cli.main import main
from vlrft.config import TaskConfig
from vlrft.data import PictureFinder
from vlrft.data.source import Folder
from vlrft.plugins.find import load_attribute
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import load_task
from vlrft.schema import DataError, Sample
from vlrft.scoring.graders import Graders

formats: Any = load_attribute("vlrft.tasks.table.formats:formats")


def load(data: Path, split: str = "train", **options: Any) -> Sequence[Sample]:
    config = TaskConfig(name="table", options={"data": str(data), **options})
    loaded = load_task(config, split)
    graders = Graders.of(loaded.task)
    for sample in loaded.samples:
        assert graders.grade("strict", gold_text(loaded.task, sample), sample) == 1.0
    return loaded.samples


def split_of(name: str) -> str:
    return "validation" if "val" in Path(read_record(name)["file"]).stem else "train"


def kind_of(name: str) -> dict[str, Any]:
    kind = read_record(name)["answer"]
    return {} if kind is None else {"answer": kind}


@pytest.mark.parametrize("name", NAMES)
def test_published_rows_are_understood(name: str, tmp_path: Path) -> None:
    record = read_record(name)
    samples = load(write_foreign(name, tmp_path), split_of(name), **kind_of(name))
    assert [s.answer for s in samples] == record["golds"]
    assert all(s.images for s in samples)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_recognised_by_its_own_format_alone(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = read_record(name)
    data = write_foreign(name, tmp_path)
    format_name = record.get("format", name)
    options = [f"options.{key}={value}" for key, value in kind_of(name).items()]
    arguments = ["data", "show", "table", "--split", split_of(name), f"options.data={data}"]
    assert main([*arguments, *options]) == 0
    assert f"format: {format_name}" in capsys.readouterr().out
    named = load(data, split_of(name), format=format_name, **kind_of(name))
    assert [s.answer for s in named] == record["golds"]


def test_the_turns_before_the_question_are_its_context(tmp_path: Path) -> None:
    samples = load(write_foreign("sharegpt", tmp_path), answer="text")
    roles = [(m.role, "".join(map(str, m.content))) for m in samples[0].messages]
    assert [role for role, _ in roles] == ["system", "user", "assistant", "user"]
    assert roles[0][1] == "You look at pictures."
    assert roles[2][1] == "a cup"
    assert [m.role for m in samples[1].messages] == ["user"]  # an empty system text is none


def test_a_picture_without_a_place_belongs_to_the_first_turn(tmp_path: Path) -> None:
    """LLaMA-Factory's demo has no <image> in its texts."""
    (first, _) = load(write_foreign("llamafactory", tmp_path), answer="text")
    assert str(first.messages[0].content[0]) == "Slot.IMAGE"
    assert all(isinstance(part, str) for m in first.messages[1:] for part in m.content)


def test_objects_replace_their_marks(tmp_path: Path) -> None:
    samples = load(write_foreign("swift", tmp_path))
    assert "Find the sheep in the image" in str(samples[1].messages[-1].content)


@pytest.mark.parametrize("unit", ["real", "norm1"])
def test_replies_of_one_point_are_points(unit: str, tmp_path: Path) -> None:
    place = [32, 24] if unit == "real" else [0.5, 0.5]
    talk = [
        {"role": "user", "content": "<image>Click <ref-object>"},
        {"role": "assistant", "content": "<bbox>"},
    ]
    objects = {"ref": ["the button"], "bbox": [place], "bbox_type": unit}
    row = {"messages": talk, "images": ["a.png"], "objects": objects}
    write_bytes(tmp_path / "a.png", encode(photograph().resize((64, 48)), "PNG"))
    write_jsonl(tmp_path / "data.jsonl", [row] * 3)
    assert [s.answer for s in load(tmp_path, radius=25)] == [[475, 475, 525, 525]] * 3


def test_the_kinds_that_fit_are_listed_where_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load(write_foreign("llava", tmp_path))
    text = str(caught.value)
    assert "conversations, the last reply" in text
    assert "options.answer=" in text
    assert "count" in text.partition("options.answer=")[2]
    assert "boxes" not in text.partition("options.answer=")[2]


def test_columns_that_the_options_name_are_read_as_such(tmp_path: Path) -> None:
    """The letter of geometry3k, if it is asked for."""
    data = write_foreign("easyr1", tmp_path)
    samples = load(data, answer="choice", answer_column="ground_truth")
    assert [s.answer for s in samples] == ["A", "A"]
    assert [s.tags["options"].splitlines()[0] for s in samples] == ["3.0", "18.8"]


REFERENCE = {
    "image": "0.png",
    "other": "1.png",
    "sent": "the dog",
    "caption": "Where is the cat?",
    "bbox": [4, 3, 20, 15],
    "second": [8, 6, 40, 30],
    "name": "first",
}
PIXELS = {"box_unit": "pixels", "box_corners": "xyxy"}


def test_columns_that_the_options_name_are_read_of_referring_expressions(tmp_path: Path) -> None:
    for k, width in enumerate((40, 80)):
        write_bytes(tmp_path / f"{k}.png", encode(photograph().resize((width, 30)), "PNG"))
    write_jsonl(tmp_path / "data.jsonl", [REFERENCE])
    (plain,) = load(tmp_path, **PIXELS)
    assert (plain.id, plain.answer) == ("train/0", [100, 100, 500, 500])
    (named,) = load(tmp_path, id="name", image="other", **PIXELS)
    assert (named.id, named.answer) == ("first", [50, 100, 250, 500])
    columns = {"question": "caption", "answer_column": "second", "image": "image"}
    (other,) = load(tmp_path, answer="box", **columns, **PIXELS)
    assert other.answer == [200, 200, 1000, 1000]
    assert "Where is the cat?" in str(other.messages[0].content)
    assert "the dog" not in str(other.messages[0].content)


def test_columns_that_the_options_name_are_read_of_messages_with_objects(tmp_path: Path) -> None:
    write_foreign("swift", tmp_path)
    row = read_record("swift")["rows"][1]
    write_jsonl(tmp_path / "data.jsonl", [{**row, "asked": "How many?", "count": 3}])
    (sample,) = load(tmp_path, answer="count", question="asked", answer_column="count")
    assert sample.answer == 3
    assert "How many?" in str(sample.messages[0].content)


@pytest.mark.parametrize(
    ("unit", "boxes"),
    [("real", [[20, 10, 120, 60], [100, 50]]), ("norm1", [[0.1, 0.1, 0.6, 0.6], [0.5, 0.5]])],
)
def test_boxes_in_a_message_are_in_the_unit_of_the_prompt(
    unit: str, boxes: list[list[float]], tmp_path: Path
) -> None:
    write_bytes(tmp_path / "0.png", encode(photograph().resize((200, 100)), "PNG"))
    messages = [
        {"role": "user", "content": "<image>Is <bbox> at <bbox>?"},
        {"role": "assistant", "content": "yes"},
    ]
    objects = {"ref": [], "bbox": boxes, "bbox_type": unit}
    write_jsonl(
        tmp_path / "data.jsonl", [{"messages": messages, "images": ["0.png"], "objects": objects}]
    )
    (sample,) = load(tmp_path, answer="text")
    assert "Is [100, 100, 600, 600] at [500, 500]?" in str(sample.messages[0].content)


def test_formats_without_columns_refuse_options_that_name_some(tmp_path: Path) -> None:
    for data in (image_folder(tmp_path / "folders", "."), coco(tmp_path / "coco")):
        for name in ("question", "answer_column", "image", "id"):
            with pytest.raises(
                DataError, match=rf"options.{name}: has no effect, as .* has no columns"
            ):
                load(data, **{name: "x"})


def coco(folder: Path) -> Path:
    detection.make(folder)
    tree = detection.annotation_file()
    write_json(folder / "coco/annotations/instances_train2017.json", tree)
    for image in tree["images"]:
        name = image["file_name"]
        write_bytes(folder / "coco/train2017" / name, (folder / "coco/val2017" / name).read_bytes())
    return folder / "coco"


def test_a_coco_file_asks_for_each_category_of_a_picture(tmp_path: Path) -> None:
    data = coco(tmp_path)
    samples = load(data)
    assert [s.id for s in samples] == ["train/37777/cat", "train/37777/dog", "train/87038/cat"]
    assert samples[0].answer == [[0, 0, 500, 500], [500, 500, 550, 567]]
    assert samples[2].answer == [[100, 100, 350, 433]]  # without the crowd
    assert {s.tags["category"] for s in samples} == {"cat", "dog"}
    assert "Find every cat in the picture." in str(samples[0].messages[0].content)
    assert [s.answer for s in load(data, "validation")] == [s.answer for s in samples]


def test_a_coco_file_alone_is_the_train_split(tmp_path: Path) -> None:
    write_json(tmp_path / "annotations.json", detection.annotation_file())
    pictures = coco(tmp_path / "other") / "val2017"
    samples = load(tmp_path / "annotations.json", images=str(pictures))
    assert len(samples) == 3
    with pytest.raises(DataError, match="no test split"):
        load(tmp_path / "annotations.json", "test", images=str(pictures))


def test_boxes_are_read_among_captions(tmp_path: Path) -> None:
    data = coco(tmp_path)
    captions = {**detection.annotation_file(), "annotations": [{"image_id": 37777, "caption": "x"}]}
    write_json(data / "annotations/captions_train2017.json", captions)
    assert len(load(data)) == 3


def test_roboflow_has_a_file_in_the_folder_of_each_split(tmp_path: Path) -> None:
    made = coco(tmp_path / "made")
    for split in ("train", "valid"):
        write_json(tmp_path / split / "_annotations.coco.json", detection.annotation_file())
        for picture in (made / "val2017").iterdir():
            write_bytes(tmp_path / split / picture.name, picture.read_bytes())
    (tmp_path / "made").rename(tmp_path.parent / f"{tmp_path.name}_made")
    assert len(load(tmp_path)) == len(load(tmp_path, "validation")) == 3


def test_pictures_at_another_place_are_asked_for(tmp_path: Path) -> None:
    data = write_foreign("swift_solution", tmp_path / "data")
    (data / "xxx").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"leads out of the folder; .* options\.images"):
        load(data, answer="math")
    assert len(load(data, answer="math", images=str(tmp_path / "elsewhere"))) == 2


def test_pictures_without_classes_are_no_format(tmp_path: Path) -> None:
    write_bytes(tmp_path / "1.png", b"")
    with pytest.raises(DataError, match=r"none of the formats .*imagefolder.*; found 1\.png"):
        load(tmp_path)


def test_several_coco_files_of_a_split_are_listed(tmp_path: Path) -> None:
    tree = detection.annotation_file()
    for name in ("a_train", "b_train"):
        write_json(tmp_path / f"{name}.json", tree)
    with pytest.raises(DataError, match=r"a_train\.json, b_train\.json"):
        load(tmp_path)


def image_folder(folder: Path, *splits: str) -> Path:
    for split in splits:
        for name in ("cat", "dog"):
            for k in range(3):
                content = encode(photograph().resize((40 + k, 30)), "PNG")
                write_bytes(folder / split / name / f"{k}.png", content)
    return folder


def test_folders_of_classes_are_split_by_the_folders_above(tmp_path: Path) -> None:
    data = image_folder(tmp_path, "train", "test")
    train, test = load(data), load(data, "test")
    assert [s.answer for s in train] == ["cat"] * 3 + ["dog"] * 3
    assert [s.id for s in test][:2] == ["test/cat/0.png", "test/cat/1.png"]
    assert "cat, dog" in str(train[0].messages[0].content)


def test_folders_of_classes_alone_are_the_train_split(tmp_path: Path) -> None:
    data = image_folder(tmp_path, ".")
    assert len(load(data)) == 6
    drawn = load(data, "test", test_share=0.34)
    assert len(drawn) == 2
    with pytest.raises(DataError, match="no test split"):
        load(data, "test")


def test_data_that_may_be_two_formats_list_them(tmp_path: Path) -> None:
    """A conversation in `messages`, and one in `conversations`."""
    row = {
        "messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}],
        "conversations": [{"from": "human", "value": "c?"}, {"from": "gpt", "value": "d"}],
    }
    write_jsonl(tmp_path / "data.jsonl", [row, row])
    with pytest.raises(DataError) as caught:
        load(tmp_path, answer="text")
    for part in ("llamafactory (`messages`", "llava (`conversations`", "options.format="):
        assert part in str(caught.value)
    assert [s.answer for s in load(tmp_path, answer="text", format="llava")] == ["d", "d"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("verl", "no column 'prompt', which verl has; columns are image, question"),
        ("coco", "0 annotation files for the train split"),
        ("imagefolder", "no pictures in folders of classes"),
        ("references", "no expression and box; looked for sent"),
        ("swift", "no column 'messages', which swift has"),
    ],
)
def test_a_format_that_does_not_fit_says_what_it_has(
    name: str, message: str, tmp_path: Path
) -> None:
    write_jsonl(tmp_path / "data.jsonl", [{"image": "1.png", "question": "x?", "answer": "1"}])
    with pytest.raises(DataError, match=message):
        load(tmp_path, answer="math", format=name)


def test_an_unknown_format_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown name 'yolo'; known: .*coco.*verl"):
        load(tmp_path, format="yolo")


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ({"ref": ["x"], "bbox": []}, "more <bbox> than its objects"),
        ({"ref": [], "bbox": [[1, 2, 3, 4]]}, "more <ref-object> than its objects"),
        ({"ref": ["x"], "bbox": [[1, 2, 3]]}, "four numbers"),
    ],
)
def test_broken_objects_are_named(objects: dict[str, Any], message: str, tmp_path: Path) -> None:
    good = read_record("swift")["rows"][1]
    bad = {**good, "objects": objects}
    bad["messages"] = [
        {"role": "user", "content": "<image><ref-object>"},
        {"role": "assistant", "content": "<bbox>"},
    ]
    write_foreign("swift", tmp_path)
    write_jsonl(tmp_path / "data.jsonl", [good, good, bad])
    with pytest.raises(DataError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("name", sorted(formats()))
def test_no_format_is_found_where_there_is_nothing(name: str) -> None:
    raw: Any = load_attribute("vlrft.tasks.table.entry:Raw")
    source = Folder(Path(__file__).parent / "nothing")
    finder = PictureFinder(source, "train")
    empty = raw(source=source, split=None, name="train", finder=finder, rows=list, head=())
    assert formats()[name].recognises(empty) == ""
    assert formats()[name].doc
