"""The report: its page and its table."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reporting.html.runs import rollout, write
from vlrft.reporting.html.page import summary_table, with_images, write_report
from vlrft.reporting.html.run_data import read_run
from vlrft.reporting.model_card.facts import result_lines
from vlrft.schema import DataError
from vlrft.schema.errors import ConfigError, StoredFileError


def test_the_page_is_self_contained_and_escapes_texts_of_models(run: Path) -> None:
    html = write_report(run).read_text()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert set(re.findall(r'(?:src|href)="(\w+:)', html)) == {"data:"}
    assert not re.search(r"https?://", html)
    assert html.count("<svg") == 3  # one metric, reward, loss
    assert html.count('class="box true"') == html.count('class="box predicted"') == 3


def test_the_table_equals_one_computed_by_hand(run: Path) -> None:
    first, init, after = summary_table(run).splitlines()
    assert first.split()[:3] == ["stage", "correct", "score"]
    assert init.split()[:4] == ["ground", "init", "1/4", "25.0"]
    assert after.split()[:3] == ["gpg", "3/4", "75.0"]
    assert "+50.0 [+0.0, +100.0]" in after


def test_the_papers_result_is_on_the_line_of_the_last_stage(run: Path) -> None:
    assert "paper" not in summary_table(run)
    published = "published: {source: A paper, scores: {ground: 51.3, other: 1.0}, note: a note}\n"
    (run / "config.yaml").write_text(f"task: {{name: toy}}\n{published}")
    head, first, last = summary_table(run).splitlines()
    assert head.endswith("paper")
    assert (first.split()[-1] == "51.3", last.split()[-1]) == (False, "51.3")
    page = write_report(run).read_text()
    assert "Paper: A paper. a note" in page
    assert page.count("<td>51.3</td>") == 1


def test_a_run_that_has_just_begun_has_a_report(run: Path) -> None:
    for name in ("evals.jsonl", "values.jsonl", "summary.json", "rollouts.jsonl"):
        (run / name).unlink()
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "gpg", "st')
    with (run / "rollouts.jsonl").open("ab") as file:
        file.write('{"completion": "é'.encode()[:-1])  # killed in the middle of a character
    html = write_report(run).read_text()
    assert "No evaluation yet" in html
    assert "Loss" in html
    assert summary_table(run).startswith("no evaluation: ")


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no run here"):
        write_report(tmp_path)


def test_a_text_with_other_line_breaks_loses_no_row(run: Path) -> None:
    rows = [rollout(1, 0.0, "one\u2028two\x85three"), rollout(1, 1.0, "four")]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    half = '{"stage": "gpg", "completion": "数'.encode()[:-1]
    (run / "rollouts.jsonl").write_bytes(text.encode() + half)
    html = write_report(run).read_text(encoding="utf-8")
    assert "three" in html
    assert "four" in html


def test_the_records_are_those_of_the_last_evaluation_only(run: Path) -> None:
    (line,) = (run / "evals.jsonl").read_text().splitlines()
    record = json.loads(line)
    write(
        run / "evals.jsonl",
        [{**record, "split": split, "output": f"of {split}"} for split in ("train", "test")],
    )
    html = write_report(run).read_text()
    assert "of test" in html
    assert "of train" not in html


def test_a_ratio_of_sums_has_no_gain_made_from_the_values_of_its_items(run: Path) -> None:
    """Such as cIoU: from 0.2 to 0.5, where the IoUs of the items are 0.5 higher in the mean."""
    evals, values = [], []
    for step, (stage, ratio, ious) in enumerate(
        [("init", 0.2, [0.0, 0.5]), ("gpg", 0.5, [0.5, 1.0])]
    ):
        key = {"stage": stage, "step": step, "split": "test"}
        score = {"correct": 1, "n": 2, "score": ratio, "ci": [0.0, 1.0]}
        mean = {**score, "score": sum(ious) / 2}
        evals.append({**key, "scores": {"cIoU": score, "gIoU": mean}})
        values.append({**key, "values": {"cIoU": ious, "gIoU": ious}})
    (run / "summary.json").write_text(json.dumps({"evals": evals}))
    write(run / "values.jsonl", values)
    gains = {(line.metric, line.stage): line.gain for line in read_run(run).table}
    assert gains[("cIoU", "gpg")] is None
    assert gains[("gIoU", "gpg")] == 0.5


@pytest.mark.parametrize("absent", [{"ci": [None, None]}, {"score": None, "ci": [None, None]}])
def test_a_value_that_was_not_a_number_is_shown_as_none(run: Path, absent: dict[str, Any]) -> None:
    summary = json.loads((run / "summary.json").read_text())
    summary["evals"][-1]["scores"]["ground"] |= absent
    (run / "summary.json").write_text(json.dumps(summary))
    init, *after = summary_table(run).splitlines()[1:]
    assert "25.0" in init
    assert [line.split()[:3] for line in after] == [["gpg", "3/4", "75.0"]] * (
        "score" not in absent
    )
    assert not any("[0.0, 100.0]" in line for line in after)
    page = write_report(run).read_text()
    assert ("<b>75.0</b>" in page) == ("score" not in absent)
    assert [line.after for line in result_lines(read_run(run).table)] == [
        "25.0 [0.0, 100.0]" if "score" in absent else "75.0"
    ]


def test_a_gain_is_over_the_evaluation_before_and_significant_only_without_zero(run: Path) -> None:
    evals, values = [], []
    for step, (stage, right) in enumerate({"init": 1, "sft": 3, "gpg": 3}.items()):
        score = {"correct": right, "n": 4, "score": right / 4, "ci": [0.0, 1.0]}
        key = {"stage": stage, "step": step, "split": "test"}
        evals.append({**key, "scores": {"ground": score}})
        values.append({**key, "values": {"ground": [1.0] * right + [0.0] * (4 - right)}})
    (run / "summary.json").write_text(json.dumps({"evals": evals}))
    write(run / "values.jsonl", values)
    init, sft, gpg = read_run(run).table
    assert (init.gain, sft.gain, gpg.gain) == (None, 0.5, 0.0)
    assert not gpg.significant
    assert not sft.significant  # [0, 1]: four records
    assert replace(sft, gain_ci=(0.01, 1.0)).significant
    assert replace(sft, gain_ci=(-1.0, -0.01)).significant


def test_the_worst_records_are_those_with_a_lower_score_than_the_best(run: Path) -> None:
    record = json.loads((run / "evals.jsonl").read_text())
    rows = [
        {**record, "output": output, "scores": {"choice": score, "count": None}}
        for output, score in (("right one", 1.0), ("wrong one", 0.0), ("right two", 1.0))
    ]
    write(run / "evals.jsonl", rows)
    best, worst = sections(run)
    assert ("wrong one" in worst, "right one" in worst, "right two" in worst) == (
        True,
        False,
        False,
    )
    assert best.index("right one") < best.index("right two") < best.index("wrong one")
    write(run / "evals.jsonl", rows[::2])
    assert "Last evaluation: all records have the same score" in write_report(run).read_text()


def test_records_without_images_are_left_out_where_others_have_some(run: Path) -> None:
    record = json.loads((run / "evals.jsonl").read_text())
    rows = [{**record, "output": f"of {k}", "images": record["images"][:k]} for k in (0, 1)]
    write(run / "evals.jsonl", rows)
    assert ("of 0" in (html := write_report(run).read_text()), "of 1" in html) == (False, True)
    write(run / "evals.jsonl", [{**row, "images": []} for row in rows])
    assert ("of 0" in (html := write_report(run).read_text()), "of 1" in html) == (True, True)


def test_the_work_of_picking_records_grows_as_their_number() -> None:
    class Counting(dict[str, Any]):
        reads = 0

        def __getitem__(self, key: str) -> Any:
            Counting.reads += key == "images"
            return super().__getitem__(key)

    picked = with_images([Counting(images=[]) for _ in range(500)])
    assert len(picked) == 500
    assert Counting.reads <= 1000


def sections(run: Path) -> tuple[str, str]:
    """The sections "best" and "worst" of the page."""
    html = write_report(run).read_text()
    worst, _, best = html.partition("Last evaluation: best")
    return best, worst.partition("Last evaluation: worst")[2]


def test_a_report_that_vlrft_did_not_write_is_not_replaced(run: Path) -> None:
    (run / "vlrft-run.json").unlink()
    write_report(run)
    (run / "metrics.jsonl").unlink()
    (run / "evals.jsonl").unlink()
    (run / "report.html").write_text("mine")
    with pytest.raises(DataError, match="not the folder of a run"):
        write_report(run)
    assert (run / "report.html").read_text() == "mine"


def test_a_line_that_no_run_wrote_is_named(run: Path) -> None:
    number = len((run / "metrics.jsonl").read_text().splitlines()) + 1
    for line, problem in (('{"a": 1}', "'stage' is missing"), ("[1]", "not a JSON object")):
        text = (run / "metrics.jsonl").read_text()
        (run / "metrics.jsonl").write_text(f"{text}{line}\n")
        with pytest.raises(StoredFileError, match=rf"metrics.jsonl, line {number}: {problem}"):
            write_report(run)
        (run / "metrics.jsonl").write_text(text)
    write_report(run)


@pytest.mark.parametrize(
    "text",
    ['{"x"', "[]", '{"evals": [3]}', '{"evals": [{"stage": "a"}]}', '{"seconds": {"a": "b"}}'],
)
def test_a_summary_that_no_run_wrote_is_named(run: Path, text: str) -> None:
    (run / "summary.json").write_text(text)
    with pytest.raises(StoredFileError, match=r"summary.json: not as a run writes it"):
        write_report(run)


@pytest.mark.parametrize("text", [b"task: {name: [\n", b"task: \xff\n", b"[1]\n", b""])
def test_a_config_that_is_none_is_named(run: Path, text: bytes) -> None:
    (run / "config.yaml").write_bytes(text)
    with pytest.raises(ConfigError, match=r"config\.yaml: "):
        read_run(run)


def test_half_a_surrogate_pair_in_a_text_is_shown_as_its_escape(run: Path) -> None:
    """A report that fails on it would end a run after its last step."""
    write(run / "rollouts.jsonl", [rollout(1, 1.0, completion="a \ud800 b")])
    assert "a \\ud800 b" in write_report(run).read_text()
