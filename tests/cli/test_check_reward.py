"""Rewards with planted flaws are detected; sound rewards have none."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vlrft.cli.main import main, parse
from vlrft.config import RewardConfig
from vlrft.rollout.task import load_rewards
from vlrft.schema.errors import ConfigError

BAD = """
import random, re, time
from vlrft.grading import read_answer

def inner(completion):
    return completion.replace("<answer>", "").replace("</answer>", "").strip()

def contains(completion, sample):
    return float(sample.answer in completion)

def contained(completion, sample):
    return float(inner(completion) in sample.answer)

def noisy(completion, sample):
    return float(read_answer(completion) == sample.answer and random.random() < 0.7)

def hashed(completion, sample):
    return float(read_answer(completion) == sample.answer) * hash(completion)

calls = 0
def moody(completion, sample):
    global calls
    calls += 1
    return float(read_answer(completion) == sample.answer) * (1 if calls % 2 else 0.5)

def mutates(completion, sample):
    sample.tags["seen"] = "yes"
    return float(read_answer(completion) == sample.answer)

def nan(completion, sample):
    return float("nan") if not completion.isascii() else float(read_answer(completion) == sample.answer)

def hangs(completion, sample):
    if len(completion) > 10_000:
        re.match(r"(a+)+$", "a" * 60 + "b")
    return float(read_answer(completion) == sample.answer)

def unfair(completion, sample):
    weight = 0.5 if int(sample.id.rpartition("/")[2]) % 4 == 0 else 1.0
    return weight * float(read_answer(completion) == sample.answer)

def short(completion, sample):
    return max(0.0, 1.0 - len(completion) / 1000)

def always(completion, sample):
    return 1.0

def placed(completions, sample):
    return [float(read_answer(c) == sample.answer and k == 0) for k, c in enumerate(completions)]

def raises(completion, sample):
    return float(completion.split()[0] == f"<answer>{sample.answer}</answer>")

def hedged(completion, sample):
    return float(sample.answer in re.findall("<answer>(.*?)</answer>", completion))

def stingy(completion, sample):
    return float(read_answer(completion) == sample.answer and sample.answer != "red")

def never(completion, sample):
    return None

def trl(completions, answer, **kwargs):
    return [float(a in c[0]["content"]) for c, a in zip(completions, answer)]

def texts(completions, answer, **kwargs):
    return [float(a == c[8:-9]) for c, a in zip(completions, answer)]

async def judged(completions, samples):
    return [float(s.answer[0] in c) for c, s in zip(completions, samples)]
"""
TASK = """
from dataclasses import dataclass
from vlrft.schema import Message, Metric, Sample, Task

@dataclass(frozen=True, kw_only=True)
class Options:
    pass

ANSWERS = ("red", "blue", "green", "red", "dark green", "black")

def load(split, options):
    ask = "Which colour: red, blue, green or black?"
    return [
        Sample(id=f"{split}/{k}", messages=(Message(role="user", content=(ask,)),), answer=answer, tags={"n": str(k)})
        for k, answer in enumerate(ANSWERS)
    ]

task = Task(
    name="colours", doc="Colours.", options=Options, splits=("train", "test"), load=load, rewards={"choice": 1.0},
    graders={"strict": ("choice",)},
    gold=lambda sample: f"<answer>{sample.answer}</answer>",
    metrics=lambda records, grader: {"accuracy": Metric(values=tuple(r.grades[grader] for r in records))},
)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "colours.py").write_text(TASK)
    return tmp_path


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[int, str]]:
    """The exit code and the output of the check of a reward of bad.py, which is made once."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "bad.py").write_text(BAD)
    (folder / "colours.py").write_text(TASK)

    @cache
    def run(reward: str) -> tuple[int, str]:
        with redirect_stdout(io.StringIO()) as out:
            code = main(check(folder, f"{folder}/bad.py:{reward}", "--time-limit", "0.5"))
        return code, out.getvalue()

    return run


def check(folder: Path, reward: str, *more: str) -> list[str]:
    return ["check", "reward", reward, "--task", f"{folder}/colours.py:task", *more]


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ("contains", "flaw: every answer of the split in one scores full marks on 100.0% of the samples"),
        ("contains", "flaw: the prompt repeated scores 1.00 on 83.3% of the samples"),
        ("contains", "flaw: the right answer or a wrong one, in one scores full marks on 100.0%"),
        ("contained", "flaw: an empty answer scores 1.00 on 100.0% of the samples"),
        ("contained", "flaw: the constant answer 'green' scores full marks on 20.0% of the samples; it is right on 16.7%"),
        ("contained", "flaw: half of the right answer scores full marks on 100.0% of the samples"),
        ("noisy", "flaw: the same completion does not always score the same"),
        ("hashed", "flaw: the same completion does not always score the same (6 samples"),
        ("moody", "flaw: the same completion does not always score the same"),
        ("mutates", "flaw: it modifies the sample (6 samples, such as train/0)"),
        ("nan", "flaw: it returned nan, not a finite number on a unicode answer (such as sample train/0)"),
        ("hangs", "flaw: it took longer than 0.5 s and was killed"),
        ("always", "flaw: it gives 1.00 to everything, including gold completions"),
        ("placed", "flaw: a completion's score depends on its place in the list (6 samples"),
        ("raises", "flaw: it raised IndexError: list index out of range on an empty answer and on white space ("),
        ("hedged", "flaw: a right and a wrong completion score full marks in either order on 100.0%"),
        ("stingy", "flaw: the gold completion scores less than 1.00 on 33.3% of the samples, such as train/0 (0.00)"),
        ("never", "flaw: it applies to none of the 6 samples"),
        ("trl", "flaw: every answer of the split in one scores full marks on 100.0% of the samples"),
        ("judged", "flaw: another sample's gold completion scores full marks on"),
    ],
)  # fmt: skip
def test_a_planted_flaw_is_found(
    checked: Callable[[str], tuple[int, str]], reward: str, expected: str
) -> None:
    code, output = checked(reward)
    assert code == 1
    assert expected in output


@pytest.mark.parametrize("reward", ["choice", "format"])
def test_a_sound_reward_has_no_flaws(
    folder: Path, capsys: pytest.CaptureFixture[str], reward: str
) -> None:
    assert main(check(folder, reward)) == 0
    out = capsys.readouterr().out
    assert "no flaw found" in out
    assert ("any answer in the right form" in out) == (reward == "format")


def test_the_built_in_rewards_are_sound_on_the_pack(capsys: pytest.CaptureFixture[str]) -> None:
    for reward in ("choice", "count", "boxes", "format"):
        assert main(["check", "reward", reward, "--task", "digits", "--limit", "12"]) == 0, reward
    assert "flaw:" not in capsys.readouterr().out


def test_a_trl_function_of_texts_gets_a_note_on_how_to_get_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(check(folder, f"{folder}/bad.py:texts")) == 1
    assert "use --completions text here" in capsys.readouterr().out
    assert main(check(folder, f"{folder}/bad.py:texts", "--completions", "text")) == 0


def test_gold_completions_that_score_less_are_one_flaw_and_not_one_of_every_probe(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = f"{folder}/colours.py:task"
    main(["check", "reward", f"{folder}/bad.py:unfair", "--task", task])
    flaws = [line for line in capsys.readouterr().out.splitlines() if line.startswith("flaw: ")]
    assert len(flaws) == 1
    assert "the gold completion scores less than 1.00" in flaws[0]


def test_a_reward_of_style_may_pay_for_wrong_answers_when_it_is_said_to_be_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = ["check", "reward", f"{folder}/bad.py:short", "--task", f"{folder}/colours.py:task"]
    assert main(check) == 1
    assert main([*check, "--kind", "style"]) == 0
    assert "note: checked as a reward of style" in capsys.readouterr().out


def test_json_contains_every_probe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(check(folder, f"{folder}/bad.py:contained", "--json")) == 1
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (report["task"], report["split"], report["reward"]) == ("colours", "train", "contained")
    assert (report["samples"], report["applies"], report["range"]) == (6, 6, [0.0, 1.0])
    rows = {row["probe"]: row for row in report["probes"]}
    assert rows["the gold completion"]["full"] == rows["an empty answer"]["full"] == 1.0
    assert rows["the prompt repeated"]["full"] == 0.0
    assert set(report["latency"]) == {"median", "p95", "worst", "on", "sample"}
    assert any(flaw.startswith("an empty answer scores 1.00") for flaw in report["flaws"])


def test_stored_outputs_are_scored_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": f"train/{k % 6}", "output": "<answer>blue</answer>"} for k in range(12)]
    rows += [{"id": "elsewhere", "output": ""}]
    stored = folder / "outputs.jsonl"
    stored.write_text("".join(json.dumps(row) + "\n" for row in rows))
    more = ("--predictions", str(stored), "--limit", "1")
    assert main(check(folder, "choice", *more)) == 0
    output = capsys.readouterr()
    assert "stored outputs: 12, mean 0.167, 0 errors" in output.out
    assert "1 output of no sample" in output.err
    assert main(check(folder, f"{folder}/bad.py:always", *more)) == 1
    assert main(check(folder, "choice", "--predictions", str(stored), "--split", "test")) == 1
    assert "none of its 13 ids is a sample of this split; try --split" in capsys.readouterr().err


def test_check_of_a_task_still_works(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{folder}/colours.py:task"]) == 0
    assert "6 of 6 gold answers" in capsys.readouterr().out
    args = parse(["--debug", "check", "reward", "choice", "options.k=4", "--task", "digits"])
    assert (args.module, args.reward, args.overrides) == ("check_reward", "choice", ["options.k=4"])
    assert parse(["check", "digits", "options.k=4"]).module == "check"


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        ("chioce", "did you mean choice"),
        ("./none.py", "no such file"),
        ("{folder}/bad.py:contain", "did you mean contains"),
        (
            "{folder}/bad.py:inner",
            r"its parameters are (completion); expected (completion, sample)",
        ),
    ],
)
def test_a_wrong_reward_is_a_one_line_error(
    folder: Path, capsys: pytest.CaptureFixture[str], reward: str, message: str
) -> None:
    assert main(check(folder, reward.format(folder=folder))) == 2
    message_line = capsys.readouterr().err
    assert message in message_line
    assert message_line.count("\n") == 1


def test_the_form_of_completions_is_refused_for_a_reward_that_is_not_trl_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "reward", "format", "--task", "digits", "--completions", "text"]) == 2
    assert capsys.readouterr().err == (
        "vlrft: task.rewards.format: completions has no effect, as only a function in TRL's form gets chat messages; leave it out\n"
    )
    (tmp_path / "trl.py").write_text(
        "def short(completions, **columns):\n    return [1.0 for _ in completions]\n"
    )
    for form in ("chat", "text"):
        config = {f"{tmp_path}/trl.py:short": RewardConfig(completions=form)}
        assert load_rewards(config)[0].strings == (form == "text")
    with pytest.raises(ConfigError, match=r"task.rewards.length: completions has no effect"):
        load_rewards({"length": RewardConfig(completions="chat")})
