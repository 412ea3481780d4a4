"""vlrft export, push and completion."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.conftest import Tiny
from tests.fakes.hub import serve_hub
from vlrft.algorithms.find import find_algorithm
from vlrft.cli.main import main
from vlrft.reporting.model_card.card import CardFacts, card_text

OLD_RUN = Path(__file__).parents[1] / "fixtures" / "old_run"


@pytest.fixture(scope="module")
def run_folder(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an earlier session, with a checkpoint of today."""
    run = tmp_path_factory.mktemp("runs") / "mine"
    shutil.copytree(OLD_RUN, run)
    (run / "checkpoints").mkdir()
    tiny("qwen2_vl").save(run / "checkpoints" / "step_3")
    (run / "checkpoints" / "step_3" / "trainer").mkdir()
    (run / "checkpoints" / "last").symlink_to("step_3")
    return run


def copy_run(run: Path, copy: Path, **settings: object) -> Path:
    """A copy of a run's folder whose config has these settings."""
    shutil.copytree(run, copy, symlinks=True)
    config = copy / "config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | settings))
    return copy


@pytest.fixture(scope="module")
def exported(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    control = copy_run(
        run_folder, tmp_path_factory.mktemp("controls") / "run", permute_rewards=True
    )
    out = tmp_path_factory.mktemp("exports") / "policy"
    words = ["export", str(run_folder), "--out", str(out), "--license", "apache-2.0"]
    assert main([*words, "--control", str(control)]) == 0
    return out


def test_the_card_of_a_plain_folder_names_no_adapter(exported: Path, tmp_path: Path) -> None:
    assert main(["export", str(exported), "--out", str(tmp_path / "again")]) == 0
    card = (tmp_path / "again" / "README.md").read_text()
    assert "as it was in `policy`" in card
    assert "adapter" not in card


def test_a_card_names_no_run_as_its_control_that_is_none(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = copy_run(run_folder, tmp_path / "other", permute_rewards=True, task={"name": "geoqa"})
    for control, problem in (
        (run_folder, "no control, as its rewards were not permuted"),
        (other, "trained on task geoqa, not on"),
    ):
        words = [
            "export",
            str(run_folder),
            "--out",
            str(tmp_path / "out"),
            "--control",
            str(control),
        ]
        assert main(words) != 0
        assert problem in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def front_matter(card: Path) -> dict[str, object]:
    _, header, _ = card.read_text().split("---\n", 2)
    content: dict[str, object] = yaml.safe_load(header)
    return content


def test_a_card_states_results_method_data_and_config(run_folder: Path, exported: Path) -> None:
    card = (exported / "README.md").read_text()
    summary = json.loads((run_folder / "summary.json").read_text())
    last = summary["evals"][-1]["scores"]
    for name, score in last.items():
        low, high = (f"{100 * value:.1f}" for value in score["ci"])
        line = f"| {name} | {score['n']} |"
        row = next(row for row in card.splitlines() if row.startswith(line))
        assert row.count(f"{100 * score['score']:.1f} [{low}, {high}]") >= 2  # and of the control
    assert find_algorithm("grpo").paper in card
    assert f"torch {summary['versions']['torch']}" in card
    assert (run_folder / "config.yaml").read_text().rstrip() in card
    assert "runs/mine" not in card
    assert str(run_folder.parent) not in card


def test_the_cards_front_matter_is_what_the_hub_reads(exported: Path) -> None:
    from huggingface_hub import ModelCard

    data = ModelCard.load(exported / "README.md").data
    assert data.library_name == "transformers"
    assert data.license == "apache-2.0"
    assert data.pipeline_tag == "image-text-to-text"
    assert data.eval_results
    assert "reinforcement-learning" in str(front_matter(exported / "README.md")["tags"])


def test_an_export_never_writes_into_a_folder_with_files(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["export", str(run_folder), "--out", str(tmp_path)]) == 2
    assert "not empty; choose a new folder" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_unknown_checkpoint_names_those_of_the_run(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert main(["export", str(run_folder), "--checkpoint", "step_9", "--out", out]) == 2
    assert "no checkpoint step_9; it has last, step_3" in capsys.readouterr().err
    one = str(run_folder / "checkpoints" / "step_3")
    assert main(["export", one, "--checkpoint", "step_2", "--out", out]) == 2
    assert "is one already; give the run's folder" in capsys.readouterr().err
    assert main(["export", one, "--base", "some/model", "--out", out]) == 2
    assert "has no adapter that could be merged into it" in capsys.readouterr().err


def push(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HF_ENDPOINT": url, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_secret"}
    command = [sys.executable, "-m", "vlrft", "push", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def test_a_push_sends_every_file_in_one_commit(exported: Path) -> None:
    with serve_hub() as hub:
        done = push(hub.url, str(exported), "me/model", "--private")
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"pushed: {hub.url}/me/model\n"
        assert hub.created[0]["name"] == "model"
        assert hub.created[0]["visibility"] == "private"
        assert hub.files == {p.name: p.read_bytes() for p in exported.iterdir()}
        assert hub.summary == "Upload by vlrft"
        assert "Bearer hf_secret" in hub.tokens


def test_options_of_an_export_are_refused_for_a_finished_folder(
    exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would have no effect: the folder is uploaded as it is."""
    monkeypatch.setattr("vlrft.cli.commands.push.upload", lambda *_: "address")
    for option, value in (
        ("--checkpoint", "step_3"),
        ("--dtype", "bfloat16"),
        ("--base", "some/model"),
        ("--name", "mine"),
        ("--license", "mit"),
        ("--control", "runs/control"),
    ):
        assert main(["push", str(exported), "me/model", option, value]) == 2
        shown = capsys.readouterr().err
        assert shown == (
            f"vlrft: {option}: {exported} is a finished model folder, which is uploaded as it is; leave it out, or push the run\n"
        )
    assert main(["push", str(exported), "me/model", "--name", "a", "--license", "mit"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert main(["push", str(exported), "me/model", "--private", "--message", "hello"]) == 0


@pytest.mark.parametrize("out", [".", "new/.."])
def test_an_export_into_the_working_directory_is_refused(
    run_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    out: str,
) -> None:
    """The new folder would take its place, and leave the shell in a folder that is removed."""
    (tmp_path / "policy").mkdir()
    monkeypatch.chdir(tmp_path / "policy")
    assert main(["export", str(run_folder), "--out", out]) == 2
    assert (
        capsys.readouterr().err
        == f"vlrft: {out} is the working directory; choose a new folder as --out\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_an_export_goes_into_an_empty_folder_that_cannot_be_replaced(
    run_folder: Path, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount point, such as the volume of a container; and a link to a folder."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "link").symlink_to("volume")
    monkeypatch.setattr("pathlib.Path.rmdir", refuse_busy)
    assert main(["export", str(run_folder), "--out", str(tmp_path / "link")]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "volume"]
    assert {p.name for p in (tmp_path / "volume").iterdir()} == {p.name for p in exported.iterdir()}


def refuse_busy(path: Path) -> None:
    """`rmdir` of a mount point."""
    if path.name == "volume":
        raise OSError(errno.EBUSY, "Device or resource busy", str(path))
    os.rmdir(path)


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        ("file/x", "cannot be written (Not a directory); choose another --out"),
        ("loop", "is there and no folder; choose a new folder as --out"),
        ("file", "is there and no folder; choose a new folder as --out"),
        ("a" * 250, "cannot be written (File name too long); choose another --out"),
        ("mine/checkpoints/last/x", "is inside the model that is exported; choose another --out"),
    ],
)
def test_an_export_that_cannot_end_well_is_refused_before_it_begins(
    run_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    out: str,
    problem: str,
) -> None:
    copy_run(run_folder, tmp_path / "mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["export", "mine", "--out", out]) == 2
    colon = ":" if problem.startswith("cannot") else ""
    assert capsys.readouterr().err == f"vlrft: {out}{colon} {problem}\n"
    assert sorted(tmp_path.rglob("*")) == before


class HubApi:
    """A hub with a public repository and the branch main."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def create_repo(self, repository: str, *, private: bool, exist_ok: bool) -> str:
        return f"https://hub/{repository}"

    def repo_info(self, repository: str) -> SimpleNamespace:
        return SimpleNamespace(private=False)

    def create_branch(self, repository: str, *, branch: str, exist_ok: bool) -> None:
        self.calls.append(("branch", branch))

    def upload_folder(self, *, revision: str | None, **_: object) -> None:
        self.calls.append(("upload", revision))


def test_what_is_pushed_privately_never_reaches_a_public_repository(
    exported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = HubApi()
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: hub)
    assert main(["push", str(exported), "me/model", "--private"]) == 2
    assert capsys.readouterr().err == (
        "vlrft: --private: me/model is there and public; leave the option out, or make the repository private on the hub first\n"
    )
    assert hub.calls == []
    assert main(["push", str(exported), "me/model"]) == 0


def test_a_branch_that_is_not_there_is_made(
    exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = HubApi()
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: hub)
    assert main(["push", str(exported), "me/model", "--revision", "v2"]) == 0
    assert main(["push", str(exported), "me/model", "--revision", "refs/pr/1"]) == 0
    assert hub.calls == [("branch", "v2"), ("upload", "v2"), ("upload", "refs/pr/1")]


def test_a_refused_push_is_one_line_without_the_token(exported: Path) -> None:
    with serve_hub() as hub:
        hub.refuse = True
        done = push(hub.url, str(exported), "me/model")
    assert done.returncode == 1
    assert "me/model: cannot be pushed (" in done.stderr
    assert "hf auth login" in done.stderr
    assert "hf_secret" not in done.stderr + done.stdout


def test_a_place_on_the_hub_has_an_owner(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(exported), "model"]) == 2
    assert "not a repository of the hub; give owner/name" in capsys.readouterr().err


def test_bash_completes_commands_configs_and_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "vlrft.bash"
    script.write_text(capsys.readouterr().out)
    probe = f"source {script}; complete -p vlrft | sed 's/.*-F //; s/ .*//' > {tmp_path}/name; "
    probe += f"COMP_WORDS=(vlrft train geoq); COMP_CWORD=2; $(cat {tmp_path}/name); echo ${{COMPREPLY[@]}}; "
    probe += f"COMP_WORDS=(vlrft exp); COMP_CWORD=1; $(cat {tmp_path}/name); echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, cwd=tmp_path)
    configs, commands = done.stdout.splitlines()[-2:]
    assert "geoqa_gpg" in configs.split()
    assert "quickstart" not in configs
    assert commands == "export"


def test_a_base_in_a_folder_is_no_link_to_the_hub_and_no_path_in_the_card() -> None:
    facts = CardFacts(name="mine", multimodal=True, dtype="float32", base="/home/me/base")
    text = card_text(facts, None, None)
    assert "/home/me" not in text
    assert "base_model" not in text
    assert "base_model: owner/base" in card_text(replace(facts, base="owner/base"), None, None)
