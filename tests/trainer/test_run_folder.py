"""Run folders: which runs may start in one, which files --overwrite removes, and who writes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from vlrft.cli.main import main
from vlrft.config import Config
from vlrft.config.load import dump_config, load_config
from vlrft.schema.errors import ConfigError, FolderInUse
from vlrft.trainer.run_folder import RunFolder

CONFIG = """
task: {name: digits, options: {subtasks: [classify], train: 60, test: 20}}
policy:
  build: {hidden_size: 32, layers: 1, heads: 4, kv_heads: 2, intermediate_size: 32, vision_width: 32, vision_layers: 1}
rollout: {group_size: 2, max_tokens: 4}
stages: [{steps: 2, prompts_per_step: 2}]
eval: {limit: 2}
save: {every: 1}
"""
ROW = '{"stage": "gpg", "step": 1}\n'


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "c.yaml").write_text(CONFIG)
    return load_config(tmp_path / "c.yaml")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def start(config: Config, out: Path, *, resume: bool = False, overwrite: bool = False) -> None:
    """All that happens to the folder of a run that writes nothing."""
    with RunFolder(out, resume=resume, overwrite=overwrite) as folder:
        folder.check(config)
        folder.claim(config)


def fill(folder: Path, **files: str) -> set[str]:
    """Writes files, with `__` for a slash and `_` for a dot; returns the names in the folder."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*")}


def refused(config: Config, out: Path, *, resume: bool = False, overwrite: bool = False) -> str:
    """The message, and the folder is as it was."""
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    with pytest.raises(ConfigError) as caught:
        start(config, out, resume=resume, overwrite=overwrite)
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def do_a_step(out: Path) -> None:
    (out / "metrics.jsonl").write_text('{"stage": "sft", "step": 1}\n')


def test_a_run_that_failed_before_its_first_step_does_not_block_its_folder(
    config: Config, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(config, out)
    (out / "summary.json").write_text("{}")
    (out / "notes.txt").write_text("mine")
    start(config, out)
    assert f"{out}: replaces a run that had not done a step" in capsys.readouterr().err
    assert {p.name for p in out.iterdir()} == {"config.yaml", "vlrft-run.json", "notes.txt"}
    (out / "checkpoints" / "step_1").mkdir(parents=True)
    assert "holds a run" in refused(config, out)


def test_a_new_folder_is_marked_and_unlocked_at_the_end(config: Config, out: Path) -> None:
    start(config, out)
    assert {p.name for p in out.iterdir()} == {"config.yaml", "vlrft-run.json"}
    assert load_config(out / "config.yaml") == config
    do_a_step(out)
    assert refused(config, out) == f"{out} holds a run; use --resume, --overwrite or another --out"
    start(config, out, resume=True)
    start(config, out, overwrite=True)


@pytest.mark.parametrize("flags", [{}, {"overwrite": True}])
def test_a_folder_of_something_else_is_refused_without_a_word_of_overwriting(
    config: Config, out: Path, flags: dict[str, bool]
) -> None:
    fill(out, config_yaml="foo: hydra\n", src__code_py="code", data__x="x")
    message = refused(config, out, **flags)
    assert "not the folder of a run (it contains data/, src/)" in message
    assert "overwrite" not in message
    assert "no run in" in refused(config, out, resume=True)


def test_a_config_that_people_wrote_is_not_a_run(config: Config, out: Path) -> None:
    fill(out, config_yaml=CONFIG)
    assert "(it contains config.yaml)" in refused(config, out, overwrite=True)
    fill(out, thesis_txt="words")
    assert "(it contains thesis.txt)" in refused(config, out, overwrite=True)


def test_a_run_from_before_the_mark_is_known_by_its_files_or_the_message_says_how_to_mark_it(
    config: Config, out: Path
) -> None:
    fill(out, metrics_jsonl=ROW, notes_txt="mine")
    message = refused(config, out, overwrite=True)
    assert (
        f"if a run made it, mark it with: echo '{{\"format\": 1}}' > {out}/vlrft-run.json"
        in message
    )
    fill(out, config_yaml=dump_config(config))
    assert "holds a run" in refused(config, out)
    start(config, out, overwrite=True)
    assert fill(out) == {"config.yaml", "vlrft-run.json", "notes.txt"}
    (out / "vlrft-run.json").write_text('{"format": 2}')
    assert "from a newer version of vlrft" in refused(config, out, overwrite=True)


def test_what_is_left_of_a_run_may_be_overwritten_but_not_added_to(
    config: Config, out: Path
) -> None:
    fill(out, metrics_jsonl=ROW, images__0123456789abcdef_png="image")
    assert "use --overwrite or another --out" in refused(config, out)
    start(config, out, overwrite=True)
    assert fill(out) == {"config.yaml", "vlrft-run.json"}


def test_overwriting_keeps_foreign_files_and_says_so(
    config: Config, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(config, out)
    fill(out, metrics_jsonl=ROW, thesis_txt="words", images__photo_png="photo")
    start(config, out, overwrite=True)
    assert fill(out) == {
        "config.yaml", "vlrft-run.json", "thesis.txt", "images", "images/photo.png"
    }  # fmt: skip
    assert f"{out}: kept, as no run writes them: images/photo.png, thesis.txt\n" in (
        capsys.readouterr().err
    )


def test_foreign_files_in_a_checkpoint_are_named_before_anything_is_removed(
    config: Config, out: Path
) -> None:
    start(config, out)
    (out / "checkpoints/step_3").mkdir(parents=True)
    (out / "checkpoints/step_3/q4.gguf").write_text("converted")
    message = refused(config, out, overwrite=True)
    assert "contain files that no run writes: checkpoints/step_3/q4.gguf; move them" in message


def test_a_run_does_not_remove_the_model_that_it_starts_from(
    config: Config, out: Path, tmp_path: Path
) -> None:
    start(config, out)
    model = out / "checkpoints/step_2"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (out / "checkpoints/last").symlink_to("step_2")
    for name in ("step_2", "last"):
        overrides = ("policy.build=null", f"policy.model={out}/checkpoints/{name}")
        again = load_config(tmp_path / "c.yaml", overrides)
        message = refused(again, out, overwrite=True)
        assert message.startswith(f"policy.model: {out}/checkpoints/{name} is part of the run")


def test_only_a_run_is_resumed(config: Config, out: Path) -> None:
    assert "no run in" in refused(config, out, resume=True)
    assert not out.exists()
    out.mkdir()
    assert "it is not the folder of a run" in refused(config, out, resume=True)
    start(config, out)
    (out / "config.yaml").unlink()
    assert "config.yaml is missing" in refused(config, out, resume=True)
    start(config, out)  # nothing was written yet
    assert "give one of them" in refused(config, out, resume=True, overwrite=True)


def test_a_run_that_is_refused_for_its_memory_resumes_with_the_setting_of_the_refusal(
    config: Config, out: Path
) -> None:
    start(config, out)
    unchecked = replace(config, memory_check=False)
    start(unchecked, out, resume=True)
    assert load_config(out / "config.yaml") == unchecked


def test_a_folder_that_a_file_system_makes_is_empty(config: Config, out: Path) -> None:
    fill(out, _gitkeep="", _nfs0012ab="")
    (out / "lost+found").mkdir()
    start(config, out)
    assert (out / "config.yaml").is_file()
    assert (out / "lost+found").is_dir()


def test_a_run_in_the_meantime_is_seen(config: Config, out: Path) -> None:
    """Both look at a folder that is not there, and load their models."""
    with RunFolder(out) as one, RunFolder(out, overwrite=True) as other:
        one.check(config)
        other.check(config)
        one.claim(config)
        with pytest.raises(FolderInUse, match=f"process {os.getpid()} on host"):
            other.claim(config)
        one.release()
    with RunFolder(out / "b") as one, RunFolder(out / "b") as other:
        one.check(config)
        other.check(config)
        one.claim(config)
        do_a_step(out / "b")
        one.release()
        with pytest.raises(ConfigError, match="holds a run"):
            other.claim(config)


def test_a_path_that_cannot_be_a_folder_is_one_line(config: Config, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link", "file/x", "x" * 300):
        with pytest.raises(ConfigError, match="cannot be written") as caught:
            start(config, tmp_path / name)
        message = str(caught.value)
        assert len(message) < 320 + len(str(tmp_path))


REWARD = """
import sys, time
from pathlib import Path

def wait(completion, sample):
    Path("started").touch()
    while Path("hold").exists():
        time.sleep(0.05)
    return float(len(completion))
"""


def test_a_live_run_is_left_alone_and_a_killed_one_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(CONFIG.replace("steps: 2", "steps: 1"))
    Path("wait.py").write_text(REWARD)
    Path("hold").touch()
    command = ["train", "c.yaml", "--out", "run", "task.rewards={./wait.py:wait: 1.0}"]
    live = subprocess.Popen([sys.executable, "-m", "vlrft", *command])
    try:
        while not Path("started").exists():
            assert live.poll() is None
            time.sleep(0.05)
        for flags in (["--resume"], ["--overwrite"]):
            assert main([*command, *flags]) == 2
            line = capsys.readouterr().err
            assert f"vlrft: run is being written by process {live.pid} on host" in line
        assert main(["report", "run"]) == 0
    finally:
        live.send_signal(signal.SIGKILL)
        live.wait()
    Path("hold").unlink()
    assert main([*command, "--resume"]) == 0
    assert len(Path("run/metrics.jsonl").read_text().splitlines()) == 1
    assert not Path("run/vlrft-run.lock").exists()
