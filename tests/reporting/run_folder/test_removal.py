"""Only files that runs write are removed: nothing foreign, nothing that a link leads to, never the folder."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from vlrft.data.atomic import DRAFT, write_atomically
from vlrft.reporting.run_folder.mark import is_run, write_mark
from vlrft.reporting.run_folder.removal import read_run_folder, remove, remove_checkpoint

CONFIG = "".join(
    f"{key}: 1\n" for key in ["task", "policy", "stages", "rollout", "update", "eval", "seed"]
)
ROW = '{"stage": "gpg", "step": 1}\n'


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def checkpoint(run: Path, step: int, *more: str) -> Path:
    """A checkpoint whose manifest lists `more` with the usual files."""
    folder = run / "checkpoints" / f"step_{step}"
    names = ("config.json", "model.safetensors", "trainer/state.json", *more)
    write(folder, *names)
    content = {"step": step, "files": dict.fromkeys(names, "sha")}
    (folder / "manifest.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    checkpoint(run, 1, "custom/code.py", "odd.bin")
    checkpoint(run, 12)
    (run / "checkpoints/last").symlink_to("step_12")
    images = ("images/0123456789abcdef.png", "images/.77_0123456789abcdef.png")
    names = ["metrics", "rollouts", "evals", "values"]
    write(run, *images, *(f"{name}.jsonl" for name in names), "summary.json", "report.html")
    write(run, "profile.md", "profile_sft.json.gz", "tensorboard/events.out.tfevents.1.vm.2.0")
    write(run, "checkpoints/.writing_step_13/any.bin", ".report.html", "config.yaml")
    write_mark(run)
    return run


def everything(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*")}


def test_a_run_is_removed_whole_and_its_folder_stays(run: Path) -> None:
    contents = read_run_folder(run)
    assert not contents.foreign
    remove(run, contents.own)
    assert everything(run) == set()


def test_foreign_files_are_kept_wherever_they_are(run: Path, tmp_path: Path) -> None:
    foreign = (
        "thesis.txt",
        "src/code.py",
        "eval.json",
        "images/photo.png",
        "tensorboard/notes",
        "checkpoints/step_final/model.safetensors",
        "checkpoints/step_12/q4.gguf",
        "checkpoints/step_12/trainer/mine",
        "metrics.jsonl.bak",
    )
    write(run, *foreign)
    contents = read_run_folder(run)
    listed = {n if (run / n).is_file() else f"{n.rstrip('/')}/" for n in contents.foreign}
    assert listed == {*foreign, "src/", "checkpoints/step_final/"} - {foreign[1], foreign[5]}
    assert set(contents.foreign_in_checkpoints()) == {foreign[6], foreign[7]}
    remove(run, contents.own)
    assert {n for n in everything(run) if (run / n).is_file()} == set(foreign)


def test_nothing_is_removed_through_a_link(run: Path, tmp_path: Path) -> None:
    checkpoint(tmp_path / "disk", 5)
    write(tmp_path / "disk", "images/0123456789abcdef.png", "metrics.jsonl")
    before = everything(tmp_path / "disk")
    remove(run, read_run_folder(run).own)
    for name in ("checkpoints", "images", "metrics.jsonl"):
        (run / name).symlink_to(tmp_path / "disk" / name)
    (run / "notes").symlink_to(tmp_path / "disk")
    contents = read_run_folder(run)
    assert set(contents.own) == {"checkpoints", "images", "metrics.jsonl"}
    assert contents.foreign == ("notes",)
    remove(run, contents.own)
    assert everything(tmp_path / "disk") == before


def test_a_manifest_owns_no_file_outside_its_checkpoint(run: Path) -> None:
    step = run / "checkpoints/step_12"
    names = dict.fromkeys(["../../thesis.txt", str(run / "thesis.txt"), "sub/../../x", 3])
    (step / "manifest.json").write_text(json.dumps({"files": {str(n): "sha" for n in names}}))
    write(run, "thesis.txt", "checkpoints/x")
    contents = read_run_folder(run)
    assert set(contents.foreign) == {"thesis.txt", "checkpoints/x"}
    remove(run, contents.own)
    assert everything(run) == {"thesis.txt", "checkpoints", "checkpoints/x"}


@pytest.mark.parametrize("manifest", ["[]", "", '{"files": 3}', "[" * 9000])
def test_a_checkpoint_without_a_manifest_owns_the_files_that_every_one_has(
    run: Path, manifest: str
) -> None:
    step = run / "checkpoints/step_1"
    (step / "manifest.json").write_text(manifest)
    foreign = {"checkpoints/step_1/custom/code.py", "checkpoints/step_1/odd.bin"}
    assert set(read_run_folder(run).foreign_in_checkpoints()) == foreign


def test_a_checkpoint_with_foreign_files_loses_only_its_own(run: Path, tmp_path: Path) -> None:
    step = run / "checkpoints/step_1"
    write(step, "notes.md")
    assert list(remove_checkpoint(step)) == ["notes.md"]
    assert everything(step) == {"notes.md"}
    assert remove_checkpoint(run / "checkpoints/step_12") == ()
    assert not (run / "checkpoints/step_12").exists()
    checkpoint(tmp_path, 3)
    (run / "checkpoints/step_3").symlink_to(tmp_path / "checkpoints/step_3")
    assert remove_checkpoint(run / "checkpoints/step_3") == ()
    assert not (run / "checkpoints/step_3").is_symlink()
    assert (tmp_path / "checkpoints/step_3/manifest.json").exists()


def test_a_removal_interrupted_anywhere_leaves_a_run_and_removes_checkpoints_first(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "config.yaml").write_text(CONFIG)
    (run / "metrics.jsonl").write_text(ROW)
    unlink, left = Path.unlink, [0]

    def interrupted(path: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        unlink(path)

    monkeypatch.setattr(Path, "unlink", interrupted)
    kept = {"vlrft-run.json", "config.yaml"}
    while removable := [n for n in read_run_folder(run).own if n not in kept]:
        assert is_run(run)
        assert not read_run_folder(run).foreign
        assert "metrics.jsonl" in removable or not any(n.startswith("ch") for n in removable)
        left[0] = 1
        with suppress(KeyboardInterrupt):
            remove(run, removable)
    assert everything(run) == kept


def test_the_folder_of_an_earlier_version_is_known_by_its_files(run: Path) -> None:
    (run / "vlrft-run.json").unlink()
    assert not is_run(run)
    (run / "config.yaml").write_text(CONFIG)
    assert is_run(run)  # by its checkpoints
    remove(run, [n for n in read_run_folder(run).own if n != "config.yaml"])
    assert not is_run(run)
    (run / "metrics.jsonl").write_text('{"a": 1}\n')
    assert not is_run(run)
    (run / "metrics.jsonl").write_text(ROW)
    assert is_run(run)
    (run / "config.yaml").write_text("foo: hydra\n")
    assert not is_run(run)


def test_a_file_is_replaced_whole_and_a_hidden_file_beside_it_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ".env", "env")
    write_atomically(tmp_path / "env", b"new")
    assert (tmp_path / "env").read_bytes() == b"new"
    assert (tmp_path / ".env").read_text() == ".env"

    def killed(*_: object) -> None:
        assert any(DRAFT.fullmatch(p.name) for p in tmp_path.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "env", b"newer")
    assert (tmp_path / "env").read_bytes() == b"new"
    assert everything(tmp_path) == {".env", "env"}
