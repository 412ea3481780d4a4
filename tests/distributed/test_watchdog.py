"""Who is judged to be lost, by a clock that moves when it is told to; and a run whose rank is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from vlrft.distributed.launcher import tell
from vlrft.distributed.ranks import WAIT, Ranks
from vlrft.distributed.watchdog import STOP, Place, Watchdog, read, status_key, where
from vlrft.tracing.phases import notify, phase, working_on

CONFIG = Path(__file__).parents[1] / "fixtures" / "ranks.yaml"
KILLED_WITHIN = 30.0  # seconds, on a busy machine; alone it is two


class Kept:
    """A store in a dictionary."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes:
        return self.values[key].encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)


def told(beat: int, *, waits: bool = False, still: float = 0.0) -> str:
    place = {"beat": beat, "step": 7, "phase": "rollout/decode", "samples": ["a"]}
    return json.dumps({**place, "waits": waits, "still": still})


def judge(rank: int) -> tuple[Kept, Watchdog]:
    store = Kept()
    return store, Watchdog(Ranks(rank=rank, size=3), store, stuck=10.0, silent=5.0)


def test_a_rank_that_tells_nothing_any_more_is_named_with_its_last_place() -> None:
    store, first = judge(0)
    for beat in range(4):
        store.set(status_key(0), told(beat))
        store.set(status_key(1), told(beat))
        store.set(status_key(2), told(min(beat, 1)))
        verdict = first.verdict(3.0 * beat)
        assert (verdict is None) == (beat < 3)
    assert verdict is not None
    assert verdict.startswith(
        "rank 2 has been silent for 6 s: step 7, rollout/decode, samples ['a']"
    )


def test_of_ranks_that_do_not_move_the_one_that_others_wait_for_is_named() -> None:
    store, first = judge(0)
    store.set(status_key(0), told(1, waits=True, still=40.0))
    store.set(status_key(1), told(1, still=11.0))
    store.set(status_key(2), told(1, still=30.0))
    verdict = first.verdict(0.0)
    assert verdict is not None
    assert verdict == (
        "rank 1 has not moved for 11 s: step 7, rollout/decode, samples ['a']; "
        "rank 2 has not moved for 30 s: step 7, rollout/decode, samples ['a']; "
        "the run stops, --resume goes on from its last checkpoint"
    )
    store.set(status_key(1), told(2, still=9.0))
    store.set(status_key(2), told(2, still=9.0))
    assert first.verdict(1.0) is None


def test_a_rank_that_loads_may_take_any_time() -> None:
    store, first = judge(0)
    for rank in range(3):
        store.set(status_key(rank), Place(moved=time.monotonic() - 99.0).told(1))
    assert first.verdict(0.0) is None


def test_the_second_rank_judges_the_first_and_others_nobody() -> None:
    for rank in (1, 2):
        store, judging = judge(rank)
        for each in range(3):
            store.set(status_key(each), told(1, still=99.0))
        assert judging.verdict(0.0) is None
        verdict = judging.verdict(6.0)
        assert (verdict or "").startswith("rank 0 has been silent") == (rank == 1)


def test_a_place_follows_the_phases() -> None:
    place, store = Place(), Kept()
    with notify(place), phase("rollout"):
        assert place.news.is_set()
        place.news.clear()
        with phase("prefill"):
            assert not place.news.is_set()
        working_on(["a", "b", "a"], step=3)
        assert place.news.is_set()
        with phase("decode"), phase(WAIT):
            store.set(status_key(0), place.told(1))
    found = read(store, 0)
    assert found is not None
    assert found["waits"]
    assert where(found) == "step 3, rollout/decode, samples ['a', 'b']"
    assert place.phases == []
    assert read(store, 1) is None


def test_the_place_of_a_failure_is_the_innermost_phase() -> None:
    place, store = Place(), Kept()
    with notify(place), suppress(ValueError):
        working_on((), step=2)
        with phase("rollout"):
            with phase("decode"):
                pass
            with phase("reward"), phase("read"):
                raise ValueError
    store.set(status_key(0), place.told(1))
    found = read(store, 0)
    assert found is not None
    assert where(found) == "step 2, rollout/reward/read"


TOLD = "step 7, rollout/decode, samples ['a']; the run stops, --resume goes on from its last checkpoint"


@pytest.mark.parametrize(
    ("codes", "stop", "said"),
    [
        ((-9, 1, None), None, f"vlrft: rank 0 was ended by SIGKILL: {TOLD}"),
        ((1, 1, 1), None, f"vlrft: rank 0 failed: {TOLD}"),
        ((1, 0, 1), None, f"vlrft: rank 1 left before the others: {TOLD}"),
        ((None, 2, None), None, f"rank 1: its words\nvlrft: rank 1 failed: {TOLD}"),
        ((1, 1, 1), 0, ""),
        ((1, 1, 1), 1, "vlrft: the verdict"),
    ],
)
def test_what_became_of_the_ranks_is_told_once(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    codes: tuple[int | None, ...],
    stop: int | None,
    said: str,
) -> None:
    store = Kept()
    outputs = [tmp_path / str(rank) for rank in range(3)]
    for rank, output in enumerate(outputs):
        store.set(status_key(rank), told(1))
        output.write_text("its words\n")
    if stop is not None:
        store.set(STOP, json.dumps({"by": stop, "said": "the verdict"}))
    assert tell(codes, outputs, store) > 0
    assert capsys.readouterr().err.strip() == said


@pytest.mark.parametrize(
    ("code", "said"), [(2, ""), (-9, "vlrft: rank 0 was ended by SIGKILL before its first step")]
)
def test_what_fails_before_it_began_has_no_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, said: str
) -> None:
    store = Kept()
    store.set(status_key(0), Place().told(1))
    assert tell([code], [tmp_path / "0"], store) > 0
    assert capsys.readouterr().err.strip() == said


def rank_of(process: int) -> str:
    """The RANK that a process was started with."""
    named = Path(f"/proc/{process}/environ").read_text().split("\0")
    return next((item[5:] for item in named if item.startswith("RANK=")), "")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks in /proc")
def test_a_run_whose_rank_is_killed_ends_with_its_name_and_goes_on_with_another_number(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "vlrft", "launch", "--ranks", "2", str(CONFIG)]
    command += ["--out", str(out)]
    with (tmp_path / "said.txt").open("wb") as said:
        running = subprocess.Popen(command, stdout=said, stderr=said)
    steps = out / "metrics.jsonl"
    while not steps.exists() or steps.read_text().count("\n") < 2:
        assert running.poll() is None, (tmp_path / "said.txt").read_text()
        time.sleep(0.05)
    below = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    (second,) = (int(process) for process in below if rank_of(int(process)) == "1")
    os.kill(second, signal.SIGKILL)
    assert running.wait(timeout=KILLED_WITHIN) == 1
    lines = (tmp_path / "said.txt").read_text().splitlines()
    (message,) = (line for line in lines if line.startswith("vlrft: "))
    assert message.startswith("vlrft: rank 1 was ended by SIGKILL: step ")
    alone = [sys.executable, "-m", "vlrft", "train", str(CONFIG), "--out", str(out), "--resume"]
    subprocess.run(alone, check=True, capture_output=True)
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 7))


def test_a_rank_that_fails_alone_is_named_with_its_error_and_its_place(tmp_path: Path) -> None:
    reward = tmp_path / "bad.py"
    reward.write_text(BAD)
    command = [sys.executable, "-m", "vlrft", "launch", "--ranks", "2", str(CONFIG)]
    command += [f"task.rewards={{{reward}:bad: 1.0}}", "--out", str(tmp_path / "run")]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 1
    error, place = found.stderr.splitlines()[-2:]
    assert error.startswith("rank 1: vlrft: sample digits/")
    assert error.endswith("reward bad raised ValueError: cannot read it")
    assert place.startswith("vlrft: rank 1 failed: step 1, rollout")
    assert "samples ['digits/" in place


BAD = """
import os

def bad(completion, sample):
    if os.environ["RANK"] == "1" and "/train/" in sample.id:
        raise ValueError("cannot read it")
    return 0.0
"""
