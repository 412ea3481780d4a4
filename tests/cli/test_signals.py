"""How a command ends on a signal, out of memory, and on an exception that nobody expected."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from vlrft.cli.crash_report import write_crash_report
from vlrft.cli.main import main
from vlrft.cli.signals import handled_signals
from vlrft.config.systems import all_systems
from vlrft.reporting.run_folder.mark import write_mark


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


def raise_error(error: BaseException) -> Callable[[object], int]:
    def run(_: object) -> int:
        raise error

    return run


def send(number: int) -> Callable[[object], int]:
    def run(_: object) -> int:
        os.kill(os.getpid(), number)
        return 0

    return run


ENDS = {
    "sigterm": (send(signal.SIGTERM), 143, "vlrft: stopped by SIGTERM\n"),
    "ctrl-c": (send(signal.SIGINT), 130, "vlrft: stopped\n"),
    "full disk": (
        raise_error(OSError(28, "No space left on device", "run/metrics.jsonl")),
        1,
        "vlrft: run/metrics.jsonl: No space left on device (--debug shows the traceback)\n",
    ),
    "memory": (
        raise_error(OutOfMemoryError("tried to allocate 20 GiB\nlong advice")),
        1,
        "vlrft: out of memory: tried to allocate 20 GiB (vlrft doctor CONFIG shows what needs it)\n",
    ),
}


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("case", ENDS)
def test_a_command_ends_with_one_line_and_the_right_code(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, code, line = ENDS[case]
    monkeypatch.setattr("vlrft.cli.commands.show.run", run)
    handlers = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert main(["show", "digits"]) == code
    assert capsys.readouterr().err == line
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers


def test_a_process_that_ignores_sigint_says_how_to_end_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with handled_signals():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, old)
    assert (
        f"SIGINT is ignored, as this process was started in the background; kill {os.getpid()} ends it"
        in (capfd.readouterr().err)
    )


def test_a_rank_leaves_signals_to_its_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    before = signal.getsignal(signal.SIGTERM)
    with handled_signals():
        assert signal.getsignal(signal.SIGTERM) is before


def test_an_unexpected_exception_leaves_a_report_in_the_runs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_mark(tmp_path)
    monkeypatch.setattr("vlrft.cli.commands.train.run", raise_error(KeyError("\x1b[31mstep")))
    assert main(["train", "quickstart", "--out", str(tmp_path)]) == 1
    path = tmp_path / "crash.txt"
    line = capsys.readouterr().err
    assert line.startswith("vlrft: KeyError: '\\x1b[31mstep'; a fault of vlrft or of a plugin")
    assert line.endswith(f"{path}\n")
    text = path.read_text()
    assert "command   vlrft train quickstart --out" in text
    assert "Traceback (most recent call last):" in text
    assert "\x1b" not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("config", "folder"), [("quickstart", "quickstart"), ("system:7", "system_7")]
)
def test_a_run_without_out_has_its_report_in_the_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path("runs") / folder
    run.mkdir(parents=True)
    write_mark(run)
    monkeypatch.setattr("vlrft.cli.commands.train.run", raise_error(KeyError("step")))
    assert main(["train", config]) == 1
    assert (run / "crash.txt").is_file()


def test_a_launch_that_is_stopped_at_once_names_the_last_checkpoint_of_the_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    number = next(s.id for s in all_systems().values() if s.runs)
    checkpoints = Path("runs") / f"system_{number}" / "checkpoints"
    (checkpoints / "step_3").mkdir(parents=True)
    (checkpoints / "last").symlink_to("step_3")
    monkeypatch.setattr("vlrft.distributed.launcher.launch", stop_at_once)
    assert main(["launch", f"system:{number}", "--ranks", "2"]) == 130
    assert capsys.readouterr().err == "vlrft: stopped at once; last checkpoint: step_3\n"


def stop_at_once(*_: object) -> int:
    raise KeyboardInterrupt


def test_another_rank_has_a_report_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mark(tmp_path)
    monkeypatch.setenv("RANK", "3")
    assert write_crash_report(KeyError("x"), ["train"], tmp_path).name == "crash_rank3.txt"


def test_no_report_can_be_written_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vlrft.cli.commands.show.run", raise_error(KeyError("step")))
    full = raise_always(OSError(28, "No space left on device"))
    monkeypatch.setattr("vlrft.cli.main.write_crash_report", full)
    assert main(["show", "digits"]) == 1
    assert "no crash report: No space left on device" in capsys.readouterr().err


def raise_always(error: BaseException) -> Callable[..., Path]:
    def write(*_: object) -> Path:
        raise error

    return write


def test_the_traceback_of_debug_has_no_secrets_and_no_control_sequences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRADER_TOKEN", "canary-5f2c81")
    error = ValueError("401 for https://me:canary@host\x1b[2J")
    error.__cause__ = RuntimeError("Authorization: Bearer canary-5f2c81")
    monkeypatch.setattr("vlrft.cli.commands.show.run", raise_error(error))
    assert main(["--debug", "show", "digits"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last):" in shown
    assert "ValueError: 401 for https://<redacted>@host\\x1b[2J" in shown
    assert "canary" not in shown
    assert "\x1b" not in shown
