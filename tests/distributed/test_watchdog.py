"""The watchdog's verdicts, by a clock that the test moves; the launcher's message; and a run whose rank is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.distributed.launcher import report_failure
from vlrft.distributed.phases import depend_on, notify, phase, work_on
from vlrft.distributed.ranks import WAIT, Ranks
from vlrft.distributed.watchdog import (
    HOW_TO_RESUME,
    STOP_KEY,
    RankStatus,
    Watchdog,
    describe,
    read_status,
    status_key,
)

CONFIG = Path(__file__).parents[1] / "fixtures" / "ranks.yaml"
KILLED_WITHIN = 30.0  # seconds on a busy machine; two on an idle one


class DictStore:
    """A store in a dictionary."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes:
        return self.values[key].encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)


def status(heartbeat: int, *, waiting: bool = False, idle: float = 0.0) -> str:
    place = {"heartbeat": heartbeat, "step": 7, "phase": "rollout/decode", "samples": ["a"]}
    rest = {"outside": "", "waiting": waiting, "ended": False, "idle_seconds": idle}
    return json.dumps({**place, **rest})


def watchdog_of(rank: int) -> tuple[DictStore, Watchdog]:
    store = DictStore()
    return store, Watchdog(
        Ranks(rank=rank, size=3), store, step_timeout=10.0, heartbeat_timeout=5.0
    )


class BusyStore(DictStore):
    """The first write is under way until the rank has ended."""

    def __init__(self, rank_ended: threading.Event) -> None:
        super().__init__()
        self.rank_ended = rank_ended
        self.writing = threading.Event()

    def set(self, key: str, value: str) -> None:
        super().set(key, value)
        if not self.writing.is_set():
            self.writing.set()
            assert self.rank_ended.wait(10)


def test_a_rank_that_fails_while_its_status_is_written_leaves_its_last_status() -> None:
    _, watchdog = watchdog_of(1)
    store = BusyStore(watchdog._over)
    watchdog.store = store
    with suppress(ValueError), watchdog.watching(), phase("rollout"):
        assert store.writing.wait(10)
        work_on(["a"], step=3)
        with phase("reward"):
            raise ValueError
    last = read_status(store, 1)
    assert last is not None
    assert describe(last) == "step 3, rollout/reward, samples ['a']"


def test_a_rank_without_heartbeats_is_named_with_its_last_status() -> None:
    store, first = watchdog_of(0)
    for heartbeat in range(4):
        store.set(status_key(0), status(heartbeat))
        store.set(status_key(1), status(heartbeat))
        store.set(status_key(2), status(min(heartbeat, 1)))
        verdict = first.verdict(3.0 * heartbeat)
        assert (verdict is None) == (heartbeat < 3)
    assert verdict is not None
    assert verdict.startswith(
        "rank 2 has sent no heartbeat for 6 s: step 7, rollout/decode, samples ['a']"
    )


@pytest.mark.parametrize("fails", [False, True])
def test_a_rank_whose_work_is_done_is_not_lost_and_one_that_failed_is(fails: bool) -> None:
    store, second = watchdog_of(1)
    with suppress(ValueError), second.watching(), phase("save"):
        if fails:
            raise ValueError
    first = Watchdog(Ranks(rank=0, size=3), store, step_timeout=10.0, heartbeat_timeout=5.0)
    assert first.verdict(0.0) is None
    verdict = first.verdict(99.0)
    assert (verdict or "").startswith("rank 1 has sent no heartbeat for 99 s") == fails


def test_ranks_without_progress_are_named_and_ranks_that_wait_for_them_are_not() -> None:
    store, first = watchdog_of(0)
    store.set(status_key(0), status(1, waiting=True, idle=40.0))
    store.set(status_key(1), status(1, idle=11.0))
    store.set(status_key(2), status(1, idle=30.0))
    verdict = first.verdict(0.0)
    assert verdict is not None
    assert verdict == (
        "rank 1 has made no progress for 11 s: step 7, rollout/decode, samples ['a']; "
        "rank 2 has made no progress for 30 s: step 7, rollout/decode, samples ['a']; "
        "the run stops; --resume continues from its last checkpoint"
    )
    store.set(status_key(1), status(2, idle=9.0))
    store.set(status_key(2), status(2, idle=9.0))
    assert first.verdict(1.0) is None


def test_a_rank_may_load_for_any_time() -> None:
    store, first = watchdog_of(0)
    for rank in range(3):
        store.set(status_key(rank), RankStatus(progress_at=time.monotonic() - 99.0).to_json(1))
    assert first.verdict(0.0) is None


def test_rank_1_checks_rank_0_and_later_ranks_check_nobody() -> None:
    for rank in (1, 2):
        store, watchdog = watchdog_of(rank)
        for each in range(3):
            store.set(status_key(each), status(1, idle=99.0))
        assert watchdog.verdict(0.0) is None
        verdict = watchdog.verdict(6.0)
        assert (verdict or "").startswith("rank 0 has sent no heartbeat") == (rank == 1)


def test_a_status_follows_the_phases() -> None:
    rank_status, store = RankStatus(), DictStore()
    with notify(rank_status), phase("rollout"):
        assert rank_status.changed.is_set()
        rank_status.changed.clear()
        with phase("prefill"):
            assert not rank_status.changed.is_set()
        work_on(["a", "b", "a"], step=3)
        assert rank_status.changed.is_set()
        with phase("decode"), phase(WAIT):
            store.set(status_key(0), rank_status.to_json(1))
    stored = read_status(store, 0)
    assert stored is not None
    assert stored["waiting"]
    assert describe(stored) == "step 3, rollout/decode, samples ['a', 'b']"
    assert rank_status.phases == []
    assert read_status(store, 1) is None


def test_a_verdict_names_what_the_rank_depends_on_outside() -> None:
    store, watchdog = watchdog_of(0)
    rank_status, silent = RankStatus(progress_at=time.monotonic() - 99.0), ["server 1 is lost"]
    with notify(rank_status):
        depend_on(lambda: silent[0])
    rank_status.phases.append("rollout")
    store.set(status_key(2), rank_status.to_json(1))
    verdict = "rank 2 has made no progress for 99 s: step 0, rollout, server 1 is lost; "
    assert (watchdog.verdict(0.0) or "").startswith(verdict)
    silent[0] = ""
    store.set(status_key(2), rank_status.to_json(2))
    assert (watchdog.verdict(0.0) or "").endswith(f"step 0, rollout; {HOW_TO_RESUME}")


def test_the_status_after_a_failure_has_the_innermost_phase() -> None:
    rank_status, store = RankStatus(), DictStore()
    with notify(rank_status), suppress(ValueError):
        work_on((), step=2)
        with phase("rollout"):
            with phase("decode"):
                pass
            with phase("reward"), phase("read"):
                raise ValueError
    store.set(status_key(0), rank_status.to_json(1))
    stored = read_status(store, 0)
    assert stored is not None
    assert describe(stored) == "step 2, rollout/reward/read"


PLACE = "step 7, rollout/decode, samples ['a']; the run stops; --resume continues from its last checkpoint"


@pytest.mark.parametrize(
    ("codes", "stop", "message"),
    [
        ((-9, 1, None), None, f"vlrft: rank 0 was killed by SIGKILL: {PLACE}"),
        ((1, 1, 1), None, f"vlrft: rank 0 failed: {PLACE}"),
        ((1, 0, 1), None, f"vlrft: rank 1 exited before the others: {PLACE}"),
        ((None, 2, None), None, f"rank 1: its output\nvlrft: rank 1 failed: {PLACE}"),
        ((1, 1, 1), 0, ""),
        ((1, 1, 1), 1, "vlrft: the verdict"),
    ],
)
def test_the_rank_that_failed_first_is_reported_once(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    codes: tuple[int | None, ...],
    stop: int | None,
    message: str,
) -> None:
    store = DictStore()
    outputs = [tmp_path / str(rank) for rank in range(3)]
    for rank, output in enumerate(outputs):
        store.set(status_key(rank), status(1))
        output.write_text("its output\n")
    if stop is not None:
        store.set(STOP_KEY, json.dumps({"rank": stop, "message": "the verdict"}))
    assert report_failure(codes, outputs, store) > 0
    assert capsys.readouterr().err.strip() == message


@pytest.mark.parametrize(("code", "how"), [(1, "failed"), (-9, "was killed by SIGKILL")])
def test_a_failure_of_the_first_rank_after_the_last_step_blames_no_other_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, how: str
) -> None:
    """Its `on_end` may go on when the others have exited."""
    store = DictStore()
    for rank in range(3):
        store.set(status_key(rank), RankStatus(step=7, ended=True).to_json(1))
    assert report_failure([code, 0, 0], [tmp_path / "0"] * 3, store) == 1
    line = f"vlrft: rank 0 {how} after the last step; checkpoint and report are written"
    assert capsys.readouterr().err.strip() == line


@pytest.mark.parametrize(
    ("code", "message"),
    [(2, ""), (-9, "vlrft: rank 0 was killed by SIGKILL before its first step")],
)
def test_a_failure_before_the_first_step_is_reported_without_a_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, message: str
) -> None:
    store = DictStore()
    store.set(status_key(0), RankStatus().to_json(1))
    assert report_failure([code], [tmp_path / "0"], store) > 0
    assert capsys.readouterr().err.strip() == message


def rank_of(process: int) -> str:
    """The RANK in the environment of a process."""
    environment = Path(f"/proc/{process}/environ").read_text().split("\0")
    return next((item[5:] for item in environment if item.startswith("RANK=")), "")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks in /proc")
def test_a_run_whose_rank_is_killed_names_it_and_resumes_with_another_number_of_ranks(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "vlrft", "launch", "--ranks", "2", str(CONFIG)]
    command += ["--out", str(out)]
    with (tmp_path / "output.txt").open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output)
    steps = out / "metrics.jsonl"
    while not steps.exists() or steps.read_text().count("\n") < 2:
        assert running.poll() is None, (tmp_path / "output.txt").read_text()
        time.sleep(0.05)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    (second,) = (int(process) for process in children if rank_of(int(process)) == "1")
    os.kill(second, signal.SIGKILL)
    assert running.wait(timeout=KILLED_WITHIN) == 1
    lines = (tmp_path / "output.txt").read_text().splitlines()
    (message,) = (line for line in lines if line.startswith("vlrft: "))
    assert message.startswith("vlrft: rank 1 was killed by SIGKILL: step ")
    assert main(["train", str(CONFIG), "--out", str(out), "--resume"]) == 0
    rows = [json.loads(line) for line in steps.read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 7))


def test_a_rank_that_fails_alone_is_named_with_its_error_and_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reward = tmp_path / "bad.py"
    reward.write_text(BAD)
    command = ["launch", "--ranks", "2", str(CONFIG), f"task.rewards={{{reward}:bad: 1.0}}"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 1
    error, place = capfd.readouterr().err.splitlines()[-2:]
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
