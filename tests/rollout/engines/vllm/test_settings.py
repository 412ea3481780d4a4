"""Settings, versions and commands, without a server or with a fake one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tiny
from tests.rollout.engines.vllm.conftest import NewFake
from vlrft.cli.doctor.page import probe_rollout_engine
from vlrft.cli.main import main
from vlrft.config import RolloutConfig
from vlrft.config.load import load_config
from vlrft.distributed.ranks import Ranks
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import EnginePlace, can_stream, find_rollout_engine
from vlrft.rollout.engines.vllm.command import server_command
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.rollout.engines.vllm.version import is_supported
from vlrft.schema.errors import ConfigError

URL = "http://127.0.0.1:1"


def test_it_is_chosen_by_name_and_streams() -> None:
    kind = find_rollout_engine({"name": "vllm", "urls": [URL], "check_every": 5})
    assert kind == Vllm(urls=(URL,), check_every=5)
    assert can_stream(kind)


@pytest.mark.parametrize(
    ("settings", "mistake"),
    [
        ({"urls": [URL], "python": "/p"}, "these servers run already, so python cannot be chosen"),
        ({"urls": [URL], "max_images": 4, "max_restarts": 0}, "so max_images, max_restarts cannot"),
        (
            {"python": "/p", "command": ["serve"]},
            "command: starts the servers by itself, so python",
        ),
        ({"urls": ["node7:8000"]}, "'node7:8000' is no address such as"),
        ({"urls": [URL, URL]}, "given twice"),
        ({"servers": 2, "devices": ["0"]}, "devices: 1 for 2 servers"),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other_are_named(
    settings: dict[str, Any], mistake: str
) -> None:
    with pytest.raises(ConfigError, match=mistake):
        find_rollout_engine({"name": "vllm", **settings})


def test_transfers_that_are_not_there_and_limits_below_the_runs_are_refused_by_name() -> None:
    with pytest.raises(
        ConfigError, match=r"^rollout\.engine\.transfer: ipc is not there yet: .* use file"
    ):
        Vllm(urls=(URL,), transfer="ipc").check(RolloutConfig())
    with pytest.raises(ConfigError, match=r"folder: http://node7:8000 is on another machine"):
        Vllm(urls=(URL, "http://node7:8000")).check(RolloutConfig())
    with pytest.raises(ConfigError, match=r"rollout\.max_tokens is 4352"):
        Vllm(urls=(URL,), context=4000).check(RolloutConfig())
    with pytest.raises(ConfigError, match=r"^rollout\.engine\.sleep: .*sampled ahead"):
        Vllm(urls=(URL,), sleep=True).check(RolloutConfig(ahead=1))
    with pytest.raises(ConfigError, match=r"^rollout\.engine\.max_images: .* 16 .* is 17"):
        Vllm(command=("serve",)).check(RolloutConfig(max_images=17))
    Vllm(command=("serve",), max_images=17).check(RolloutConfig(max_images=17))
    Vllm(urls=(URL,)).check(RolloutConfig(max_images=17))  # the server's own limit counts


def test_an_environment_without_vllm_is_refused_before_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\(vlrft's own\) has no vLLM; `make vllm` makes"):
        Vllm().check(RolloutConfig())
    with pytest.raises(ConfigError, match="/none/python does not run"):
        Vllm(python="/none/python").check(RolloutConfig())
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho 0.11.2\necho 0.1.0\n")
    old.chmod(0o755)
    with pytest.raises(ConfigError, match=r"has vLLM 0\.11\.2, supported is"):
        Vllm(python=str(old)).check(RolloutConfig())
    without = tmp_path / "other"
    without.write_text("#!/bin/sh\necho 0.32.1\n")
    without.chmod(0o755)
    with pytest.raises(ConfigError, match=r"0\.32\.1, but not vlrft-vllm"):
        Vllm(python=str(without)).check(RolloutConfig())


def test_the_window_of_versions_ignores_the_build() -> None:
    versions = ["0.31.9", "0.32.0", "0.32.0+cpu", "0.32.4.dev1+g1", "0.33.0", "dev"]
    assert [is_supported(v) for v in versions] == [False, True, True, True, False, False]


def test_doctor_asks_servers_for_their_version(new_fake: NewFake) -> None:
    good, old = new_fake(), new_fake(version="0.30.0")
    config = load_config(
        "configs/quickstart.yaml", (f"rollout.engine={{name: vllm, urls: ['{good.url}']}}",)
    )
    assert probe_rollout_engine(config) == [f"rollout.engine vllm: {good.url} has vLLM 0.32.0+cpu"]
    config = load_config(
        "configs/quickstart.yaml", (f"rollout.engine={{name: vllm, urls: ['{old.url}']}}",)
    )
    with pytest.raises(ConfigError, match=r"has vLLM 0\.30\.0, supported is"):
        probe_rollout_engine(config)
    config = load_config(
        "configs/quickstart.yaml", (f"rollout.engine={{name: vllm, urls: ['{URL}']}}",)
    )
    with pytest.raises(ConfigError, match="does not say its version"):
        probe_rollout_engine(config)


def test_a_command_has_the_trainers_dtype_and_none_of_its_ranks(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "3")
    settings = Vllm(python="/env/python", servers=2, devices=("0", "2,3"), arguments=("--seed=7",))
    policy = tiny("qwen2_vl")
    command = server_command(settings, policy, tmp_path, 1, 8001, tmp_path / "log", 300)
    assert command.arguments[:4] == ("/env/python", "-m", "vllm.entrypoints.cli.main", "serve")
    assert {"--dtype=float32", "--max-model-len=300", "--tensor-parallel-size=2"} <= set(
        command.arguments
    )
    assert command.arguments[-1] == "--seed=7"
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert "RANK" not in command.environment


def test_an_evaluation_samples_with_its_servers(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str], eval_model: Path
) -> None:
    engine = (
        f"rollout.engine={{name: vllm, command: ['{sys.executable}', -m, vlrft.testing.fake_vllm]}}"
    )
    run = ["eval", "--model", str(eval_model), "--task", "digits", engine, "rollout.max_tokens=4"]
    assert main([*run, "--limit", "4"]) == 0
    assert "4 of 4 answers" in capsys.readouterr().err


@pytest.fixture
def eval_model(tiny: Tiny, tmp_path: Path) -> Path:
    policy: Policy = tiny("qwen2_vl")
    policy.save(tmp_path / "model")
    return tmp_path / "model"


def test_servers_that_sleep_need_a_single_rank(tiny: Tiny) -> None:
    place = EnginePlace(ranks=Ranks(rank=1, size=2))
    with pytest.raises(ConfigError, match="works with one rank, and the run has 2"):
        Vllm(urls=(URL,), sleep=True).build_at(tiny("qwen2_vl"), place)


def test_adapters_need_a_policy_that_has_some(tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match="the policy has no adapters"):
        Vllm(urls=(URL,), lora="adapter").build(tiny("qwen2_vl"))
