"""Hosts of environments: what one does wrong ends its own play, and no other."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.fakes.envs import make, sample, single, told
from vlrft.envs import EnvFailure, EnvPool, EnvRegistry, Host, InProcess, SingleTurn, build_host
from vlrft.envs.worker_main import digest
from vlrft.plugins.find import find_task
from vlrft.schema import Message, Observation, Sample, Step

TOLD = "tests.fakes.envs:told"
LIMIT = 0.4  # seconds of a turn where one hangs


@pytest.fixture
def host() -> Iterator[EnvPool]:
    made = EnvPool(TOLD, 1, time_limit=20)
    yield made
    made.shut()


@pytest.fixture(params=["here", "processes"])
def either(request: pytest.FixtureRequest) -> Iterator[Host]:
    made: Host = InProcess(make) if request.param == "here" else EnvPool(TOLD, 2, time_limit=20)
    yield made
    made.shut()


def begin(host: Host, *samples: Sample) -> list[int]:
    return [handle for handle, shown in host.start(samples) if isinstance(shown, Observation)]


def seen(answer: object) -> Any:
    """What an answer shows and earns, images as bytes, without the process that it came from."""
    if isinstance(answer, Step):
        return answer.reward, answer.scores, answer.valid, seen(answer.observation)
    if isinstance(answer, Observation):
        return answer.messages, [(i.mode, i.size, i.tobytes()) for i in answer.images]
    return answer


def message(answer: object) -> str:
    assert isinstance(answer, EnvFailure), answer
    assert "\n" not in answer.message
    return answer.message


def process(answer: object) -> Any:
    assert isinstance(answer, Step)
    assert answer.observation is not None
    return answer.observation.anchor


def ended(pid: int, seconds: float = 10) -> bool:
    """Waits until the process has ended; it may be a zombie."""
    state, end = Path(f"/proc/{pid}/stat"), time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if state.read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def scripted(host: Host) -> list[Any]:
    """A few plays in lock-step, some of which end early or fail."""
    begun = host.start([sample(n) for n in ("a", "a", "b", "c", "d")])
    found: list[Any] = [seen(shown) for _, shown in begun]
    a, other, b, c, d = (handle for handle, _ in begun)
    for said in (
        {a: "left", other: "left", b: "up", c: "raise", d: "no step"},
        {b: "down", a: "right", c: "once more"},
        {a: "end", b: "end", other: "end"},
    ):
        answers = host.step(said)
        assert set(answers) == set(said)
        found += [seen(answers[handle]) for handle in said]
    host.close([a, b])
    host.close([other, c, d])
    return found


def test_answers_are_those_of_one_process() -> None:
    here, there = InProcess(make), EnvPool(TOLD, 2, time_limit=20)
    expected, found = scripted(here), scripted(there)
    there.shut()
    assert found == expected
    assert sum(isinstance(answer, EnvFailure) for answer in expected) == 3


def test_environments_of_a_sample_share_a_process_and_processes_are_balanced() -> None:
    host = EnvPool("tests.fakes.envs:told", 3, time_limit=20)
    names = [n for n in "abcdef" for _ in range(2)]
    handles = begin(host, *map(sample, names))
    answers = host.step(dict.fromkeys(handles, "x"))
    pids = {
        name: {process(answers[h]) for h, n in zip(handles, names, strict=True) if n == name}
        for name in names
    }
    assert all(len(own) == 1 for own in pids.values())
    counts = [sum(own == {pid} for own in pids.values()) for pid in host.pids]
    assert counts == [2, 2, 2]
    host.step(dict.fromkeys(handles[2:4], "end"))  # b: its process has the fewest at play
    (late, again) = begin(host, sample("late"), sample("c"))
    answers = host.step({late: "x", again: "x"})
    assert process(answers[late]) in pids["b"]
    assert process(answers[again]) in pids["c"]
    host.shut()


def test_what_a_sample_s_environments_keep_is_shared() -> None:
    host = EnvPool("tests.fakes.envs:shared", 2, time_limit=20)
    shown = [s for _, s in host.start([sample("a"), sample("b"), sample("a")])]
    assert [s.shown for s in shown if isinstance(s, Observation)] == ["1", "1", "2"]
    host.shut()


def test_processes_work_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for the other, so one after another they would hang."""
    (tmp_path / "meeting.py").write_text(MEETING)
    host = EnvPool(f"{tmp_path}/meeting.py:task", 2, time_limit=10, start_limit=10)
    both = {"a": str(tmp_path / "b"), "b": str(tmp_path / "a")}
    begun = host.start([sample(n, mine=str(tmp_path / n), other=o) for n, o in both.items()])
    assert not [shown for _, shown in begun if isinstance(shown, EnvFailure)]
    host.shut()


MEETING = """
import time
from pathlib import Path
from tests.fakes.envs import Told, task

class Meeting(Told):
    def start(self):
        Path(self.sample.info["mine"]).touch()
        while not Path(self.sample.info["other"]).exists():
            time.sleep(0.01)
        return self.show()

task = task(Meeting)
"""


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("die", r"died with its process \(SIGKILL\) in turn 2; was there enough memory"),
        ("leave", r"died with its process \(exit code 3\) in turn 2"),
        ("hang", r"took longer than 0\.4 s and was killed in turn 2; .*task\.env\.time_limit"),
        ("fork and die", r"died with its process \(SIGKILL\) in turn 2"),
    ],
)
def test_the_culprit_is_named_and_the_others_go_on(how: str, what: str) -> None:
    names = ["first", "culprit", "last", "idle"]
    script = [
        dict.fromkeys("012", "left"),
        {"0": "right", "1": how, "2": "up"},
        dict.fromkeys("0123", "down"),
    ]
    calm = [{k: t for k, t in said.items() if k != "1"} for said in script]

    def played(host: Host, script: Sequence[dict[str, str]]) -> list[dict[int, Any]]:
        handles = begin(host, *map(sample, names))
        return [host.step({handles[int(k)]: t for k, t in said.items()}) for said in script]

    host = EnvPool(TOLD, 1, time_limit=LIMIT if how == "hang" else 20)
    one, two, three = played(host, script)
    expected = played(InProcess(make), calm)
    assert message(two[1]).startswith("sample culprit: its environment")
    assert re.search(what, message(two[1]))
    assert three[1] == two[1]  # it stays so
    for found, wanted in zip((one, two, three), expected, strict=True):
        assert {k: seen(a) for k, a in found.items() if k != 1} == {
            k: seen(a) for k, a in wanted.items()
        }
    assert process(one[0]) == process(two[0]) != process(two[2]) == process(three[0])
    host.shut()


def test_a_process_that_dies_between_calls_has_no_culprit(host: EnvPool) -> None:
    names = ["a", "b", "over"]
    a, b, over = begin(host, *map(sample, names))
    answers = host.step({a: "left", b: "left", over: "end"})
    (pid,) = host.pids
    os.kill(pid, signal.SIGKILL)
    assert ended(pid)
    answers = host.step({a: "right", b: "up"})
    here = InProcess(make)
    first, second, _ = begin(here, *map(sample, names))
    here.step({first: "left", second: "left"})
    expected = here.step({first: "right", second: "up"})
    assert [seen(answers[h]) for h in (a, b)] == [seen(expected[h]) for h in (first, second)]
    assert process(answers[a]) == process(answers[b]) == host.pids[0] != pid


def test_what_is_gone_is_closed_without_being_played_again(host: EnvPool) -> None:
    a, bad = begin(host, sample("a"), sample("b"))
    host.step({a: "left", bad: "die"})
    assert host.pids == []
    host.close([a, bad])
    assert host.pids == []


@pytest.mark.parametrize("how", ["raise", "no step", "unsendable"])
def test_what_raises_or_answers_nonsense_ends_its_own_play(either: Host, how: str) -> None:
    if how == "unsendable" and isinstance(either, InProcess):
        return  # nothing is sent
    bad, good = begin(either, sample("bad"), sample("good"))
    answers = either.step({bad: how, good: "left"})
    what = {
        "raise": r"sample bad: its environment raised KeyError: 'no such thing' \(envs\.py:\d+\) in turn 1$",
        "no step": "returned a Observation, not a vlrft.schema.Step, in turn 1$",
        "unsendable": "cannot be played in another process: TypeError: cannot pickle",
    }[how]
    assert re.search(what, message(answers[bad]))
    assert isinstance(answers[good], Step)
    assert either.step({bad: "left"}) == {bad: answers[bad]}
    either.close([bad, good])
    with pytest.raises(KeyError):
        either.step({bad: "left"})


def test_a_start_that_raises_is_no_handle_s_end_but_its_own(either: Host) -> None:
    (bad, failed), (good, shown) = either.start([sample("bad", start="raise"), sample("good")])
    assert message(failed).endswith("as it started")
    assert isinstance(shown, Observation)
    assert either.step({bad: "left"})[bad] == failed
    assert isinstance(either.step({good: "left"})[good], Step)


def test_a_close_that_raises_is_a_warning_and_the_others_are_closed(either: Host) -> None:
    handles = begin(either, *(sample(n, close="raise") for n in "abc"))
    with pytest.warns(RuntimeWarning, match=r"raised KeyError.*as it was closed \(and 2 more\)"):
        either.close(handles)
    either.close(handles)
    (again,) = begin(either, sample("a"))
    assert again not in handles
    assert isinstance(either.step({again: "left"})[again], Step)


@pytest.mark.parametrize("how", ["die", "hang"])
def test_a_start_and_a_close_that_take_their_process_down(how: str) -> None:
    host = EnvPool(TOLD, 1, time_limit=LIMIT, start_limit=2 * LIMIT)
    begun = host.start([sample("a"), sample("bad", start=how), sample("b", close=how)])
    a, _, b = (handle for handle, _ in begun)
    assert [isinstance(shown, EnvFailure) for _, shown in begun] == [False, True, False]
    expected = (
        r"\(SIGKILL\) as it started" if how == "die" else r"longer than 0\.8 s .* as it started"
    )
    assert re.search(expected, message(begun[1][1]))
    with pytest.warns(RuntimeWarning, match="sample b: .* as it was closed"):
        host.close([b])
    answer = host.step({a: "left"})[a]
    assert isinstance(answer, Step)
    assert isinstance(answer.observation, Observation)
    assert answer.observation.messages[0].content[1] == "a\nleft"
    host.shut()


def test_a_play_that_cannot_be_repeated_fails_and_says_so(host: EnvPool) -> None:
    random, good, bad = begin(host, sample("r", random=True), sample("g"), sample("b"))
    host.step({random: "left", good: "left"})
    assert isinstance(host.step({bad: "die"})[bad], EnvFailure)
    answers = host.step({random: "left", good: "left"})
    what = message(answers[random])
    assert "sample r" in what
    assert "answered otherwise as it started; it may depend on its sample" in what
    assert isinstance(answers[good], Step)
    assert host.step({random: "left"}) == {random: answers[random]}


def test_the_order_of_sets_is_the_same_in_each_process(host: EnvPool) -> None:
    unordered, bad = begin(host, sample("u", unordered=True), sample("b"))
    host.step({unordered: "left", bad: "die"})
    assert isinstance(host.step({unordered: "left"})[unordered], Step)


@pytest.mark.parametrize("how", ["die", "hang", "raise"])
def test_one_that_fails_as_it_is_played_again_fails_alone(tmp_path: Path, how: str) -> None:
    host = EnvPool(TOLD, 1, time_limit=LIMIT if how == "hang" else 20)
    once = str(tmp_path / "once")
    worse, good, bad = begin(host, sample("w", once=once), sample("g"), sample("b"))
    host.step({worse: f"second time: {how}", good: "left"})
    host.step({bad: "die"})
    answers = host.step({worse: "left", good: "left"})
    expected = "KeyError" if how == "raise" else "in turn 1, played again in a new process"
    assert expected in message(answers[worse])
    assert isinstance(answers[good], Step)
    host.shut()


@pytest.mark.parametrize(
    ("task", "what"),
    [
        ("tests.fakes.envs:nothing", "it does not find its task .*PluginError.*no 'nothing'"),
        ("tests.fakes.envs:make", "it does not find its task .*expected a vlrft.schema.Task"),
        ("{folder}/dies.py:task", r"it died \(exit code 7\)"),
    ],
)
def test_a_process_that_cannot_begin_fails_all_of_its_plays(
    tmp_path: Path, task: str, what: str
) -> None:
    starts = tmp_path / "starts"
    starts.touch()
    (tmp_path / "dies.py").write_text(
        f"import os; open({str(starts)!r}, 'a').write('x'); os._exit(7)"
    )
    host = EnvPool(task.format(folder=tmp_path), 1)
    found = [message(shown) for _, shown in host.start([sample("a"), sample("b")])]
    assert all(re.search(f"^sample {n}: .*{what}", m) for n, m in zip("ab", found, strict=True))
    assert host.pids == []
    assert starts.read_text() == ("x" if "dies" in task else "")  # it is not tried for each


def test_without_an_interpreter_all_plays_fail(
    host: EnvPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    ((_, shown),) = host.start([sample("a")])
    assert re.search(r"it cannot be started \(.*No such file", message(shown))
    monkeypatch.undo()
    assert begin(host, sample("a"))


def test_a_sample_that_cannot_be_sent_fails_alone(host: EnvPool) -> None:
    (_, bad), (_, good) = host.start([sample("a", lock=threading.Lock()), sample("b")])
    assert re.search("sample a: .*cannot pickle", message(bad))
    assert isinstance(good, Observation)


def test_an_answer_that_cannot_be_read_here_fails_alone(tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(OWN)
    host = EnvPool(f"{tmp_path}/pack.py:task", 1)
    (_, bad), (_, good) = host.start([sample("a", own=True), sample("b")])
    assert re.search("sample a: .*only its own process can read", message(bad))
    assert isinstance(good, Observation)
    host.shut()


OWN = """
from vlrft.schema import Observation
from tests.fakes.envs import Told, task

class Own:
    pass

class Showing(Told):
    def show(self):
        return Observation(messages=(), anchor=Own() if self.sample.info else None)

task = task(Showing)
"""


def test_equal_images_are_one_object(host: EnvPool) -> None:
    (_, one), (_, two) = host.start([sample("a"), sample("a")])
    assert isinstance(one, Observation)
    assert isinstance(two, Observation)
    assert one.images[0] is two.images[0]
    assert one.images[0].getpixel((3, 3)) == (0, 0, 7)
    assert one.images[0].size == (16, 8)


def held() -> tuple[int, int]:
    """Open files and threads of this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def test_a_hundred_episodes_leave_nothing_behind() -> None:
    before = held()
    host = EnvPool(TOLD, 2, time_limit=20)
    begin(host, sample("stays"))
    host.step({0: "left"})
    settled: list[tuple[int, int]] = []
    for k in range(34):
        own = begin(host, *map(sample, ("a", "b", "c")))
        host.step(dict.fromkeys(own, "left"))
        if k % 16 == 15:
            host.step({own[0]: "die"})
        host.step(dict.fromkeys(own, "end"))
        host.close(own)
        settled.append(held())
        assert len(host.pids) == 2
    assert settled[0] == settled[-1]
    assert list(host._records) == [0]
    assert host._records[0].said == ["left"]
    host.shut()
    assert held() == before


def test_shut_ends_the_processes_and_a_start_begins_anew(host: EnvPool) -> None:
    (old,) = begin(host, sample("a"))
    (pid,) = host.pids
    host.shut()
    assert not Path(f"/proc/{pid}").exists()
    assert host.pids == []
    host.close([old])
    assert begin(host, sample("a")) == [old + 1]


def test_a_host_that_is_forgotten_ends_its_processes() -> None:
    host = EnvPool(TOLD, 1)
    begin(host, sample("a"))
    (pid,) = host.pids
    del host
    assert ended(pid)


def test_an_interruption_leaves_the_host_usable(
    host: EnvPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a,) = begin(host, sample("a"))

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(host, "_wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        host.step({a: "left"})
    with pytest.raises(KeyboardInterrupt):
        host.start([sample("b")])
    monkeypatch.undo()
    assert host.pids == []
    assert isinstance(host.step({a: "left"})[a], Step)
    assert list(host._records) == [a]


@pytest.mark.parametrize("busy", [False, True])
def test_processes_end_with_their_caller(busy: bool) -> None:
    script = f"""
import os, threading, time
from vlrft.envs import EnvPool
from tests.fakes.envs import sample
host = EnvPool("{TOLD}", 1, time_limit=0.5, start_limit=0.5)
(handle, _), = host.start([sample("a")])
print(*host.pids, flush=True)
if {busy}:
    threading.Thread(target=lambda: host.step({{handle: "hang"}}), daemon=True).start()
    time.sleep(0.2)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL
    pid = int(done.stdout)
    in_time = ended(pid)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    assert in_time


def test_an_interrupt_passes_through_this_process_and_closes_what_began() -> None:
    closed: list[str] = []

    class Env:
        def __init__(self, sample: Sample) -> None:
            self.id = sample.id

        def start(self) -> Observation:
            if self.id == "b":
                raise KeyboardInterrupt
            return Observation(messages=())

        def step(self, text: str) -> Step:
            raise SystemExit

        def close(self) -> None:
            closed.append(self.id)

    host = InProcess(Env)
    with pytest.raises(KeyboardInterrupt):
        host.start([sample("a"), sample("b")])
    assert closed == ["a", "b"]
    (handle,) = begin(host, sample("c"))
    with pytest.raises(SystemExit):
        host.step({handle: ""})
    host.shut()
    assert closed == ["a", "b", "c"]


def test_the_host_that_a_task_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pack.py").write_text(
        "from tests.fakes.envs import Told, task\ntask = task(Told)\n"
    )
    assert isinstance(build_host(told, workers=0, time_limit=None, reference=TOLD), InProcess)
    alone = build_host(single, workers=2, time_limit=None, reference="tests.fakes.envs:single")
    assert isinstance(alone, InProcess)
    ((_, shown),) = alone.start([sample("a")])
    assert shown == SingleTurn(sample("a")).start()
    monkeypatch.chdir(tmp_path)
    for reference in (TOLD, "./pack.py", "./pack.py:task"):
        monkeypatch.chdir(tmp_path)
        found = build_host(told, workers=1, time_limit=5, reference=reference)
        monkeypatch.chdir("/")
        assert isinstance(found, EnvPool)
        ((_, shown),) = found.start([sample("a")])
        assert isinstance(shown, Observation)
        found.shut()


def test_a_digest_is_of_what_is_shown_and_earned() -> None:
    picture, other = Image.new("RGB", (4, 2)), Image.new("RGB", (4, 2), (0, 0, 1))
    words = Message(role="user", content=("left",))
    shown = Observation(messages=(words,), images=(picture,), anchor=object())
    first = Step(observation=shown, reward=0.5, scores={"a": 1.0, "b": 0.0})
    same = replace(
        first,
        observation=replace(shown, images=(picture.copy(),), anchor=object()),
        scores={"b": 0.0, "a": 1.0},
    )
    assert digest(first) == digest(same)
    different = [
        replace(first, reward=0.5 + 1e-9),
        replace(first, scores={"a": 1.0, "b": 1.0}),
        replace(first, valid=False),
        replace(first, observation=None),
        *(
            replace(first, observation=seen)
            for seen in (
                replace(shown, images=(other,)),
                replace(shown, images=(Image.new("RGB", (2, 4)),)),
                replace(shown, images=()),
                replace(shown, follows=True),
                replace(shown, shown="left"),
                replace(shown, messages=(words, words)),
            )
        ),
    ]
    assert len({digest(first), *map(digest, different)}) == 1 + len(different)


def test_tasks_of_a_run_share_their_hosts() -> None:
    hosts = EnvRegistry()
    task = find_task("gridworld")
    one = hosts.of(task, workers=1, time_limit=None, reference="gridworld")
    assert hosts.of(task, workers=1, time_limit=None, reference="gridworld") is one
    assert hosts.of(task, workers=2, time_limit=None, reference="gridworld") is not one
    assert isinstance(one, EnvPool)
    one.start([task.load("test", task.options())[0]])
    (pid,) = one.pids
    hosts.shut()
    assert one.pids == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
