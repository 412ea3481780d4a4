"""Episodes in the report: the observation, thought, action and reward of each turn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.reporting.html.runs import write
from tests.rewards.counted_work import count_work
from vlrft.reporting.html.episodes import make_episode, split_episodes, split_thoughts
from vlrft.reporting.html.page import write_report
from vlrft.reporting.run_folder.mark import write_mark
from vlrft.testing.small_policies import noise_image

HOSTILE = "<script>alert(1)</script>"


def turn(said: str = "<action>go</action>", **fields: Any) -> dict[str, Any]:
    defaults = {"shown": "You see a door.", "images": [], "reward": 0.0, "valid": True}
    return {**defaults, "said": said, **fields}


def rollout(reward: float = 1.0, *turns: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A line of rollouts.jsonl."""
    all_turns = list(turns) or [turn(advantage=0.5), turn(reward=reward, advantage=-0.25)]
    return {
        "stage": "gpg",
        "step": 3,
        "id": "game/7",
        "prompt": "",
        "images": [],
        "completion": "\n".join(t["said"] for t in all_turns),
        "reward": reward,
        "scores": {"won": float(reward > 0), "other": None},
        "advantage": 0.125,
        "answer": None,
        "tags": {},
        "origin": "fresh",
        "ended": "done",
        "turns": all_turns,
        **fields,
    }


def record(won: float, *turns: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A line of evals.jsonl."""
    row = rollout(won, *(turns or [turn()]), **fields)
    del row["advantage"], row["reward"], row["ended"], row["completion"]
    return {**row, "split": "test", "output": "", "grades": {"strict": won}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with episodes."""
    (tmp_path / "config.yaml").write_text("task: {name: toy}\n")
    write_mark(tmp_path)
    (tmp_path / "images").mkdir()
    noise_image(28, 28).save(tmp_path / "images" / "x.png")
    write(
        tmp_path / "metrics.jsonl",
        [{"stage": "gpg", "step": 1, "env/valid": 0.5, "episode/won": 0.5}],
    )
    write(tmp_path / "rollouts.jsonl", [rollout(1.0), rollout(0.0)])
    write(tmp_path / "evals.jsonl", [record(1.0), record(0.0)])
    return tmp_path


def cells(html: str) -> list[list[str]]:
    """The text of each row of the tables of turns."""
    tables = re.findall(r"<tr><th></th><th>observation.*?</table>", html, re.S)
    rows = [row for table in tables for row in re.findall(r"<tr><td.*?</tr>", table, re.S)]
    by_row = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S) for row in rows]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in by_row]


def test_a_turn_is_an_observation_a_thought_and_an_action(tmp_path: Path) -> None:
    said = "<think> a door,\nso </think> <think>go</think><action>go to door 1</action>"
    (view,) = make_episode(tmp_path, rollout(1.0, turn(said, reward=1.0, advantage=-0.25))).turns
    assert view.observation == "You see a door."
    assert view.thought == "a door,\nso go"
    assert view.action == "<action>go to door 1</action>"
    assert (view.reward, view.advantage) == ("1", "-0.25")
    assert view.valid


@pytest.mark.parametrize("said", ["<think>never ends <action>go</action>", "no </think> go", ""])
def test_a_thought_that_is_not_closed_stays_with_the_action(tmp_path: Path, said: str) -> None:
    (view,) = make_episode(tmp_path, rollout(1.0, turn(said))).turns
    assert (view.thought, view.action) == ("", said)


def test_long_texts_of_a_turn_are_shortened_as_on_cards(tmp_path: Path) -> None:
    said = f"<think>{'t' * 700}</think>{'a' * 700}"
    (view,) = make_episode(tmp_path, rollout(1.0, turn(said, shown="s" * 700))).turns
    assert view.observation == "s" * 600 + " …"
    assert view.thought == "t" * 600 + " …"
    assert view.action == "a" * 600 + " …"


def test_the_scores_of_an_episode(tmp_path: Path) -> None:
    view = make_episode(tmp_path, rollout(1.0))
    assert view.title == "game/7 · step 3"
    assert dict(view.scores) == {"won": "1.00", "reward": "+1.00", "advantage": "+0.12"}
    assert view.has_advantages
    assert [t.reward for t in view.turns] == ["", "1"]
    assert make_episode(tmp_path, rollout(1.0, ended="turns")).title.endswith(" · turns")


def test_an_episode_of_an_evaluation_has_no_advantages_and_is_good_when_it_is_won(
    tmp_path: Path,
) -> None:
    won, lost = (make_episode(tmp_path, record(grade)) for grade in (1.0, 0.0))
    assert (won.good, lost.good) == (True, False)
    assert not won.has_advantages
    assert "advantage" not in dict(won.scores)
    assert (
        make_episode(tmp_path, rollout(1.0)).good,
        make_episode(tmp_path, rollout(-0.5)).good,
    ) == (True, False)


def test_rows_of_a_single_turn_are_no_episodes() -> None:
    single: dict[str, Any] = {"id": "a"}
    one = rollout(1.0)
    assert split_episodes([single, one, {"id": "b", "turns": []}]) == (
        [single, {"id": "b", "turns": []}],
        [one],
    )


def test_the_page_shows_each_turn(run: Path) -> None:
    said = "<think>left?</think>go left"
    turns = [turn(said, reward=-0.1, valid=False, advantage=-1.5), turn("go right", advantage=2.0)]
    write(
        run / "rollouts.jsonl",
        [rollout(0.0, *turns), rollout(1.0, turn("stay", reward=1.0, advantage=1.0))],
    )
    html = write_report(run).read_text()
    training = html.partition("<h2>Episodes</h2>")[2].partition(
        "<h2>Last evaluation: worst episodes</h2>"
    )[0]
    assert cells(training) == [
        ["1", "You see a door.", "", "stay", "1", "+1.00"],
        ["1", "You see a door.", "left?", "go left", "-0.1", "-1.50"],
        ["2", "You see a door.", "", "go right", "", "+2.00"],
    ]
    assert re.findall(r'class="action( invalid)?"', training) == ["", " invalid", ""]
    assert "2 turns" in training
    assert "<h2>Rollouts</h2>" not in html
    assert "Episodes: won" in html
    assert "Share of turns with a readable action" in html


def test_the_worst_and_the_best_episodes_of_the_last_evaluation(run: Path) -> None:
    rows = [record(1.0, turn("good")), record(0.0, turn("bad")), record(1.0, turn("fine"))]
    write(run / "evals.jsonl", rows)
    html = write_report(run).read_text()
    worst, _, best = html.partition("Last evaluation: worst episodes")[2].partition(
        "Last evaluation: best episodes"
    )
    assert [row[3] for row in cells(worst)] == ["bad"]
    assert [row[3] for row in cells(best)] == ["good", "fine", "bad"]
    assert "<th>advantage</th>" not in worst + best


def test_texts_of_models_and_environments_are_escaped(run: Path) -> None:
    hostile = turn(f"<think>{HOSTILE}</think>{HOSTILE}", shown=HOSTILE, advantage=1.0)
    broken = {"environment": f"sample {HOSTILE}: its environment raised KeyError"}
    write(run / "rollouts.jsonl", [rollout(0.0, hostile, errors=broken, ended="error", id=HOSTILE)])
    write(run / "evals.jsonl", [record(0.0, hostile, errors=broken, id=HOSTILE)])
    html = write_report(run).read_text()
    assert "<script" not in html
    for section in ("Episodes", "Last evaluation: best episodes"):
        part = html.partition(f"<h2>{section}</h2>")[2]
        ((_, *row),) = cells(part)[:1]
        assert [cell.count("&lt;script&gt;alert(1)") for cell in row[:3]] == [1, 1, 1]
        assert "its environment raised KeyError" in part
    assert not re.search(r"https?://", html)


def test_a_turn_shows_its_images_and_leaves_out_a_missing_one(run: Path) -> None:
    pictured = turn(images=["images/x.png", "images/gone.png"], shown="<image>", advantage=0.0)
    write(run / "rollouts.jsonl", [rollout(1.0, pictured)])
    (view,) = make_episode(run, rollout(1.0, pictured)).turns
    assert [uri.partition(",")[0] for uri in view.images] == ["data:image/png;base64"]
    assert view.observation == ""
    html = write_report(run).read_text()
    assert html.count('alt="observation"') == 1
    assert set(re.findall(r'(?:src|href)="(\w+:)', html)) == {"data:"}


def test_a_turn_without_text_is_marked_as_empty(run: Path) -> None:
    write(run / "rollouts.jsonl", [rollout(0.0, turn("", valid=False, advantage=0.0))])
    html = write_report(run).read_text()
    assert cells(html)[0][3] == "(empty)"


@pytest.mark.parametrize(
    ("said", "thoughts", "action"),
    [
        ("<think>a</think> go", ["a"], " go"),
        ("<think>a</think>x<think>b\nc</think>y", ["a", "b\nc"], "xy"),
        ("<think>a<think>b</think></think>", ["a<think>b"], "</think>"),
        ("</think><think>a", [], "</think><think>a"),
        ("go", [], "go"),
    ],
)
def test_thoughts_are_apart_from_the_action(said: str, thoughts: list[str], action: str) -> None:
    assert split_thoughts(said) == (thoughts, action)


@pytest.mark.parametrize("unit", ["<think>", "</think>", "<think>x</think>", "<think></think>x"])
def test_the_work_of_finding_thoughts_grows_as_the_text(unit: str) -> None:
    small, large = (count_work(split_thoughts, unit * times) for times in (2**6, 2**9))
    assert large <= 1.25 * 8 * (small + 100)
