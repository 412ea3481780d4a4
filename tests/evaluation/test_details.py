"""Tables of an evaluation: classes with confusions, boxes by IoU and by size."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.evaluation.details.box_table import make_box_table, size_of
from vlrft.evaluation.details.class_table import OTHER, UNREADABLE, make_class_table
from vlrft.evaluation.details.tables import make_details
from vlrft.evaluation.intervals import wilson
from vlrft.plugins.find import find_task
from vlrft.schema import Record


def named(k: int, gold: str, answer: str | None) -> Record:
    grade = float(answer is not None and answer.casefold() == gold.casefold())
    why = "" if answer is not None else "no <answer> tag"
    return Record(
        id=str(k),
        output="",
        answer=gold,
        extracted=answer,
        grades={"strict": grade},
        unreadable=why,
    )


def boxed(k: int, iou: float, box: tuple[int, int, int, int], **info: object) -> Record:
    return Record(id=str(k), output="", answer=box, grades={"strict": iou}, info=info)


def test_the_accuracy_of_each_class_and_who_is_taken_for_whom() -> None:
    pairs = [
        *[("iris", "Iris"), ("iris", "rose"), ("iris", "rose"), ("iris", "daisy")],
        *[("rose", "rose"), ("rose", None)],
    ]
    table = make_class_table([named(k, gold, answer) for k, (gold, answer) in enumerate(pairs)])
    assert table is not None
    assert [(c.name, c.correct, c.n, c.score) for c in table.classes] == [
        ("iris", 1, 4, 0.25),
        ("rose", 1, 2, 0.5),
    ]
    assert table.classes[0].ci == wilson(1, 4)
    assert table.macro == 0.375
    assert table.confusion == {
        "iris": {"rose": 2, "iris": 1, OTHER: 1},
        "rose": {"rose": 1, UNREADABLE: 1},
    }
    assert table.confusions()[0] == ("iris", "rose", 2)
    lines = table.lines()
    assert lines[0] == "2 classes, mean accuracy 37.50:"
    assert lines[3:] == [
        "  most confused: iris -> rose 2",
        "  answers that are another name: 1",
        "  answers that are unreadable: 1",
    ]


def test_a_class_is_not_taken_for_one_that_differs_by_a_sign() -> None:
    pairs = [("A", "A-"), ("A-", "A"), ("A-", "a-"), ("A", "A"), ("A", '"A"')]
    table = make_class_table([named(k, gold, answer) for k, (gold, answer) in enumerate(pairs)])
    assert table is not None
    assert table.confusion == {"A": {"A-": 1, "A": 1, OTHER: 1}, "A-": {"A": 1, "A-": 1}}


def test_of_many_classes_the_worst_are_printed() -> None:
    records = [named(k, f"class {k:02}", f"class {k:02}" if k > 3 else "x") for k in range(40)]
    table = make_class_table(records)
    assert table is not None
    assert table.lines()[0].endswith("90.00, the worst:")
    alone = make_class_table(records[:1])
    assert alone is not None
    assert alone.lines()[0].startswith("1 class, ")
    assert [line.split()[1] for line in table.lines()[1:7]] == ["00", "01", "02", "03", "04", "05"]


def test_the_curve_is_the_share_of_answers_with_at_least_each_iou() -> None:
    table = make_box_table([boxed(k, iou, (0, 0, 9, 9)) for k, iou in enumerate((0.0, 0.5, 0.951))])
    assert table is not None
    assert [p.threshold for p in table.curve] == [k / 100 for k in range(5, 100, 5)]
    shares = {p.threshold: p.share for p in table.curve}
    assert (shares[0.05], shares[0.5], shares[0.55], shares[0.95]) == (2 / 3, 2 / 3, 1 / 3, 1 / 3)
    assert (table.sizes, table.unsized) == ((), 3)
    assert len(table.lines()) == 1


@pytest.mark.parametrize(
    ("box", "info", "size"),
    [
        ((0, 0, 100, 100), {"size": [319, 319]}, "small"),  # 31.9 pixels a side
        ((0, 0, 100, 100), {"size": [320, 320]}, "medium"),
        ((0, 0, 300, 300), {"size": [320, 320]}, "large"),  # 96 pixels a side
        ((0, 0, 300, 300), {"size": [320, 320], "area": 1023.9}, "small"),  # a mask in the box
        ((0, 0, 100, 100), {"size": [319, 319], "area": math.nan}, "small"),
        ((0, 0, 300, 300), {}, None),
    ],
)
def test_sizes_are_those_of_coco(
    box: tuple[int, int, int, int], info: dict[str, object], size: str | None
) -> None:
    assert size_of(boxed(0, 1.0, box, **info)) == size


def test_each_size_has_its_accuracy() -> None:
    small, large = (0, 0, 30, 30), (0, 0, 900, 900)
    records = [boxed(k, k % 2, small, size=[500, 500]) for k in range(4)]
    records += [boxed(9, 0.5, large, size=(500, 500)), boxed(10, 0.25, large)]
    table = make_box_table(records)
    assert table is not None
    assert [(s.name, s.n, s.mean_iou, s.accuracy) for s in table.sizes] == [
        ("small", 4, 0.5, 0.5),
        ("large", 1, 0.5, 1.0),
    ]
    assert table.unsized == 1
    assert table.lines()[-1] == "  1 answer of pictures without a stored size"


def test_a_task_says_which_records_are_in_which_table() -> None:
    digits = find_task("digits")
    kinds = {"classify": "7", "count": 3, "ground": (0, 0, 9, 9)}
    records = [
        Record(id=kind, output="", answer=gold, grades={"strict": 1.0}, tags={"kind": kind})
        for kind, gold in kinds.items()
    ]
    details = make_details(digits, records)
    assert details.classes is not None
    assert [c.name for c in details.classes.classes] == ["7"]
    assert details.boxes is not None
    assert details.boxes.n == 1
    assert make_details(find_task("counting"), records).lines() == []


def test_the_tables_are_printed_and_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("a", "daisy", "daisy"), ("b", "daisy", "rose"), ("c", "rose", "rose")]
    text = (
        json.dumps({"id": i, "output": f"<answer>{o}</answer>", "answer": g}) for i, g, o in rows
    )
    (tmp_path / "p.jsonl").write_text("\n".join(text))
    out = tmp_path / "o.json"
    command = ["score", "finegrained", "--predictions", str(tmp_path / "p.jsonl"), "--json"]
    assert main([*command, str(out)]) == 0
    assert "2 classes, mean accuracy 75.00:" in capsys.readouterr().out
    classes = json.loads(out.read_text())["classes"]
    assert classes["confusion"] == {"daisy": {"daisy": 1, "rose": 1}, "rose": {"rose": 1}}
    assert classes["classes"]["daisy"]["score"] == 0.5
