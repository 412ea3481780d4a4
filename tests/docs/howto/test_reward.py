"""The Python blocks of docs/howto/reward.md, each in a separate file, give what the page says."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from tests.docs.pages import files, read_page, run_suite, write_files
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
    sample = Sample(id=name, messages=(Message(role="user", content=(name,)),), answer=answer)
    return [
        Rollout(
            sample=sample,
            rows=(TrainingRow(prompt=Prompt(ids=()), pieces=(Piece(ids=(), text=t),)),),
        )
        for t in texts
    ]


def scores(
    name: str, *groups: Sequence[Rollout], progress: float = 1.0
) -> list[dict[str, float | None]]:
    scored = score_groups(groups, load_rewards({name: 1.0}), progress)
    return [dict(rollout.scores) for rollouts in scored for rollout in rollouts]


def test_the_page_has_the_blocks_that_are_run_here() -> None:
    python = {
        "near",
        "test_near",
        "shortest",
        "novel",
        "patient",
        "from_trl",
        "judge",
        "arithmetic",
        "lenient",
    }
    assert set(BLOCKS) == {f"{name}.py" for name in python} | {"arithmetic.yaml"}


def test_a_reward_that_changes_in_the_course_of_a_stage() -> None:
    answers = group("a", 3, "<answer>3</answer>", "<answer>4</answer>")
    assert scores("./patient.py", answers, progress=0.25) == [{"patient": 1.0}, {"patient": 0.375}]
    assert scores("./patient.py", answers) == [{"patient": 1.0}, {"patient": 0.0}]


def test_named_scores_and_samples_to_which_a_reward_does_not_apply() -> None:
    near = scores("./near.py", group("a", 3, "<answer>2</answer>", "2"), group("b", "red", "red"))
    assert near[0] == {"near/form": 1.0, "near/value": pytest.approx(2 / 3)}
    assert near[1:] == [{"near/form": 0.0, "near/value": 0.0}, {"near": None}]
    with pytest.raises(DataError):
        scores("./near.py", group("a", -1, "2"))


def test_near_passes_the_suite(here: Path) -> None:
    assert run_suite(here / "test_near.py") > 3


def test_a_group_and_a_batch() -> None:
    right, long = "<answer>7</answer>", "Well. <answer>7</answer>"
    groups = [group("a", "7", right, long, "7"), group("b", "8", right)]
    assert [s["shortest"] for s in scores("./shortest.py", *groups)] == [1, 0, 0, 0]
    assert [s["novel"] for s in scores("./novel.py", *groups)] == [0.5, 1, 1, 0.5]


def test_trl_s_function_unchanged() -> None:
    groups = [group("a", "7", "<answer> 7 </answer>", "7"), group("b", None, "7")]
    accuracy = scores("./from_trl.py:accuracy_reward", *groups)
    assert [s["accuracy_reward"] for s in accuracy] == [1.0, 0.0, None]


class Judge(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(
            json.dumps({"score": float(question["text"] == question["gold"])}).encode()
        )

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Judge)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_judge_on_a_server(here: Path, server: int) -> None:
    (here / "judge.py").write_text(BLOCKS["judge.py"].replace("8000", str(server)))
    rollouts = group("a", "7", *["7", "8"] * 20)
    for _ in range(2):
        assert [s["judge"] for s in scores("./judge.py", rollouts)] == [1.0, 0.0] * 20


def test_a_call_that_hangs_scores_zero_as_the_config_says(here: Path) -> None:
    section = yaml.safe_load(BLOCKS["arithmetic.yaml"])["task"]
    config = TypeAdapter(TaskConfig).validate_python(section)
    rewards = load_rewards(config.rewards or {})
    texts = ("(1 + 2) * 3", "9**9**9**9", "1/0", "9")
    rollouts = group("a", 9, *(f"<answer>{text}</answer>" for text in texts))
    (scored,) = score_groups([rollouts], rewards)
    for reward in rewards:
        if reward.workers is not None:
            reward.workers.close()
    assert [r.scores["arithmetic"] for r in scored] == [1.0, 0.0, 0.0, 1.0]
    assert [list(r.errors) for r in scored] == [[], ["arithmetic"], [], []]
    assert "took longer than 1 s and was killed" in scored[1].errors["arithmetic"]


def test_the_flaw_of_the_lenient_reward_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"^\$ vlrft (check reward .*)$", PAGE, re.M)
    (line,) = re.findall(r"^flaw: .*$", PAGE, re.M)
    assert main(command.split()) == 1
    assert line in capsys.readouterr().out.splitlines()


def test_the_options_that_the_page_names_exist() -> None:
    usage = next(a for a in parser()._actions if a.choices).choices["check reward"].format_help()  # type: ignore[index]
    for option in ("--task", "--split", "--limit", "--time-limit", "--predictions", "--json"):
        assert option in PAGE
        assert option in usage
