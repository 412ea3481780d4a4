"""Plays in the report: what was shown, thought, done and earned, turn by turn."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.policies import noise_image
from vlrft.reporting.html.episodes import episode, split
from vlrft.reporting.html.page import write_report

HOSTILE = "<script>alert(1)</script>"


def turn(said: str = "<action>go</action>", **known: Any) -> dict[str, Any]:
    given = {"shown": "You see a door.", "images": [], "reward": 0.0, "valid": True}
    return {**given, "said": said, **known}


def play(reward: float = 1.0, *turns: dict[str, Any], **known: Any) -> dict[str, Any]:
    """A line of rollouts.jsonl."""
    own = list(turns) or [turn(advantage=0.5), turn(reward=reward, advantage=-0.25)]
    return {
        "stage": "gpg",
        "step": 3,
        "id": "game/7",
        "prompt": "",
        "images": [],
        "completion": "\n".join(t["said"] for t in own),
        "reward": reward,
        "scores": {"won": float(reward > 0), "other": None},
        "advantage": 0.125,
        "answer": None,
        "tags": {},
        "origin": "fresh",
        "ended": "done",
        "turns": own,
        **known,
    }


def record(won: float, *turns: dict[str, Any], **known: Any) -> dict[str, Any]:
    """A line of evals.jsonl."""
    own = play(won, *(turns or [turn()]), **known)
    del own["advantage"], own["reward"], own["ended"], own["completion"]
    return {**own, "split": "test", "output": "", "grades": {"strict": won}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of plays."""
    (tmp_path / "config.yaml").write_text("task: {name: toy}\n")
    (tmp_path / "images").mkdir()
    noise_image(28, 28).save(tmp_path / "images" / "x.png")
    write(
        tmp_path / "metrics.jsonl", [{"stage": "gpg", "step": 1, "env/valid": 0.5, "play/won": 0.5}]
    )
    write(tmp_path / "rollouts.jsonl", [play(1.0), play(0.0)])
    write(tmp_path / "evals.jsonl", [record(1.0), record(0.0)])
    return tmp_path


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def cells(html: str) -> list[list[str]]:
    """The text of each row of the tables of turns."""
    tables = re.findall(r"<tr><th></th><th>observation.*?</table>", html, re.S)
    rows = [row for table in tables for row in re.findall(r"<tr><td.*?</tr>", table, re.S)]
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in rows]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in found]


def test_a_play_is_what_was_shown_thought_and_done(tmp_path: Path) -> None:
    said = "<think> a door,\nso </think> <think>go</think><action>go to door 1</action>"
    (found,) = episode(tmp_path, play(1.0, turn(said, reward=1.0, advantage=-0.25))).exchanges
    assert found.shown == "You see a door."
    assert found.thought == "a door,\nso go"
    assert found.said == "<action>go to door 1</action>"
    assert (found.reward, found.advantage) == ("1", "-0.25")
    assert found.valid


@pytest.mark.parametrize("said", ["<think>never ends <action>go</action>", "no </think> go", ""])
def test_what_is_no_whole_thought_stays_with_the_action(tmp_path: Path, said: str) -> None:
    (found,) = episode(tmp_path, play(1.0, turn(said))).exchanges
    assert (found.thought, found.said) == ("", said)


def test_figures_of_a_play(tmp_path: Path) -> None:
    found = episode(tmp_path, play(1.0))
    assert found.title == "game/7 · step 3"
    assert dict(found.figures) == {"won": "1.00", "reward": "+1.00", "advantage": "+0.12"}
    assert found.taught
    assert [x.reward for x in found.exchanges] == ["", "1"]
    assert episode(tmp_path, play(1.0, ended="turns")).title.endswith(" · turns")


def test_a_play_of_an_evaluation_has_no_advantages_and_is_good_where_it_is_won(
    tmp_path: Path,
) -> None:
    won, lost = (episode(tmp_path, record(grade)) for grade in (1.0, 0.0))
    assert (won.good, lost.good) == (True, False)
    assert not won.taught
    assert "advantage" not in dict(won.figures)
    assert (episode(tmp_path, play(1.0)).good, episode(tmp_path, play(-0.5)).good) == (True, False)


def test_rows_of_a_single_turn_are_no_plays() -> None:
    single: dict[str, Any] = {"id": "a"}
    one = play(1.0)
    assert split([single, one, {"id": "b", "turns": []}]) == (
        [single, {"id": "b", "turns": []}],
        [one],
    )


def test_the_page_shows_each_turn(run: Path) -> None:
    said = "<think>left?</think>go left"
    own = [turn(said, reward=-0.1, valid=False, advantage=-1.5), turn("go right", advantage=2.0)]
    write(
        run / "rollouts.jsonl",
        [play(0.0, *own), play(1.0, turn("stay", reward=1.0, advantage=1.0))],
    )
    html = write_report(run).read_text()
    training = html.partition("<h2>Episodes</h2>")[2].partition("<h2>Last evaluation: lost</h2>")[0]
    assert cells(training) == [
        ["1", "You see a door.", "", "stay", "1", "+1.00"],
        ["1", "You see a door.", "left?", "go left", "-0.1", "-1.50"],
        ["2", "You see a door.", "", "go right", "", "+2.00"],
    ]
    assert re.findall(r'class="do( invalid)?"', training) == ["", " invalid", ""]
    assert "2 turns" in training
    assert "<h2>Rollouts</h2>" not in html
    assert "Plays: won" in html
    assert "Share of turns with a readable action" in html


def test_what_was_lost_and_what_was_won_of_the_last_evaluation(run: Path) -> None:
    rows = [record(1.0, turn("good")), record(0.0, turn("bad")), record(1.0, turn("fine"))]
    write(run / "evals.jsonl", rows)
    html = write_report(run).read_text()
    lost, _, won = html.partition("Last evaluation: lost")[2].partition("Last evaluation: best")
    assert [row[3] for row in cells(lost)] == ["bad"]
    assert [row[3] for row in cells(won)] == ["good", "fine", "bad"]
    assert "<th>advantage</th>" not in lost + won


def test_what_models_and_environments_say_is_escaped(run: Path) -> None:
    own = turn(f"<think>{HOSTILE}</think>{HOSTILE}", shown=HOSTILE, advantage=1.0)
    broken = {"environment": f"sample {HOSTILE}: its environment raised KeyError"}
    write(run / "rollouts.jsonl", [play(0.0, own, errors=broken, ended="error", id=HOSTILE)])
    write(run / "evals.jsonl", [record(0.0, own, errors=broken, id=HOSTILE)])
    html = write_report(run).read_text()
    assert "<script" not in html
    for section in ("Episodes", "Last evaluation: best"):
        part = html.partition(f"<h2>{section}</h2>")[2]
        ((_, *row),) = cells(part)[:1]
        assert [cell.count("&lt;script&gt;alert(1)") for cell in row[:3]] == [1, 1, 1]
        assert "its environment raised KeyError" in part
    assert not re.search(r"https?://", html)


def test_a_turn_shows_its_picture_or_goes_without(run: Path) -> None:
    pictured = turn(images=["images/x.png", "images/gone.png"], shown="<image>", advantage=0.0)
    write(run / "rollouts.jsonl", [play(1.0, pictured)])
    (found,) = episode(run, play(1.0, pictured)).exchanges
    assert [uri.partition(",")[0] for uri in found.pictures] == ["data:image/png;base64"]
    assert found.shown == ""
    html = write_report(run).read_text()
    assert html.count('alt="observation"') == 1
    assert set(re.findall(r'(?:src|href)="(\w+:)', html)) == {"data:"}


def test_a_play_without_a_word_says_so(run: Path) -> None:
    write(run / "rollouts.jsonl", [play(0.0, turn("", valid=False, advantage=0.0))])
    html = write_report(run).read_text()
    assert cells(html)[0][3] == "(empty)"
