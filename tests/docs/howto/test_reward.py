"""The Python blocks of docs/howto/reward.md, each in a file of its own, give what the page says."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import files, read_page, write_files
from vlrft.cli.main import main, parser
from vlrft.config import TaskConfig
from vlrft.rollout.task import load_rewards
from vlrft.schema import DataError, Message, Piece, Prompt, Rollout, Sample, TrainingRow
from vlrft.scoring.rewards import score_groups

PAGE = read_page("docs/howto/reward.md")
BLOCKS = files(PAGE)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def group(name: str, answer: object, *texts: str) -> list[Rollout]:
    asked = Sample(id=name, messages=(Message(role="user", content=(name,)),), answer=answer)
    return [
        Rollout(
            sample=asked,
            rows=(TrainingRow(prompt=Prompt(ids=()), pieces=(Piece(ids=(), text=t),)),),
        )
        for t in texts
    ]


def scores(name: str, *groups: Sequence[Rollout]) -> list[dict[str, float | None]]:
    found = score_groups(groups, load_rewards({name: 1.0}))
    return [dict(rollout.scores) for own in found for rollout in own]


def test_the_page_has_the_blocks_that_are_run_here() -> None:
    python = {"near", "shortest", "novel", "from_trl", "judge", "arithmetic", "lenient"}
    assert set(BLOCKS) == {f"{name}.py" for name in python} | {"arithmetic.yaml"}


def test_named_scores_and_what_does_not_apply() -> None:
    given = scores("./near.py", group("a", 3, "<answer>2</answer>", "2"), group("b", "red", "red"))
    assert given[0] == {"near/form": 1.0, "near/value": pytest.approx(2 / 3)}
    assert given[1:] == [{"near/form": 0.0, "near/value": 0.0}, {"near": None}]
    with pytest.raises(DataError):
        scores("./near.py", group("a", -1, "2"))


def test_a_group_and_a_batch() -> None:
    right, long = "<answer>7</answer>", "Well. <answer>7</answer>"
    own = [group("a", "7", right, long, "7"), group("b", "8", right)]
    assert [s["shortest"] for s in scores("./shortest.py", *own)] == [1, 0, 0, 0]
    assert [s["novel"] for s in scores("./novel.py", *own)] == [0.5, 1, 1, 0.5]


def test_trl_s_function_unchanged() -> None:
    own = [group("a", "7", "<answer> 7 </answer>", "7"), group("b", None, "7")]
    given = scores("./from_trl.py:accuracy_reward", *own)
    assert [s["accuracy_reward"] for s in given] == [1.0, 0.0, None]


class Judge(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"score": float(asked["text"] == asked["gold"])}).encode())

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[int]:
    made = HTTPServer(("127.0.0.1", 0), Judge)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made.server_port
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_judge_on_a_server(here: Path, server: int) -> None:
    (here / "judge.py").write_text(BLOCKS["judge.py"].replace("8000", str(server)))
    own = group("a", "7", *["7", "8"] * 20)
    for _ in range(2):
        assert [s["judge"] for s in scores("./judge.py", own)] == [1.0, 0.0] * 20


def test_what_hangs_counts_zero_as_the_config_says(here: Path) -> None:
    written = yaml.safe_load(BLOCKS["arithmetic.yaml"])
    from pydantic import TypeAdapter

    config = TypeAdapter(TaskConfig).validate_python(written["task"])
    rewards = load_rewards(config.rewards or {})
    texts = ("(1 + 2) * 3", "9**9**9**9", "1/0", "9")
    own = group("a", 9, *(f"<answer>{text}</answer>" for text in texts))
    (found,) = score_groups([own], rewards)
    for reward in rewards:
        if reward.workers is not None:
            reward.workers.close()
    assert [r.scores["arithmetic"] for r in found] == [1.0, 0.0, 0.0, 1.0]
    assert [list(r.errors) for r in found] == [[], ["arithmetic"], [], []]
    assert "took longer than 1 s and was killed" in found[1].errors["arithmetic"]


def test_the_lenient_reward_is_found_out(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"^\$ vlrft (check reward .*)$", PAGE, re.M)
    (line,) = re.findall(r"^flaw: .*$", PAGE, re.M)
    assert main(command.split()) == 1
    assert line in capsys.readouterr().out.splitlines()


def test_the_options_that_the_page_names_exist() -> None:
    usage = next(a for a in parser()._actions if a.choices).choices["check reward"].format_help()  # type: ignore[index]
    for option in ("--task", "--split", "--limit", "--time-limit", "--predictions", "--json"):
        assert option in PAGE
        assert option in usage
