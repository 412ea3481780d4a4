"""`vlrft doctor CONFIG`: what it prints, and what it refuses in one line."""

from __future__ import annotations

import json
import re
import shlex
import time
import urllib.error
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from vlrft.cli.commands.doctor import EXTRAS
from vlrft.cli.doctor import page
from vlrft.cli.main import main
from vlrft.config import BuildConfig, LoraConfig
from vlrft.config.load import load_config
from vlrft.memory.shapes import PromptSize
from vlrft.policy.load import load_policy
from vlrft.policy.tiny import build_tokenizer
from vlrft.policy.trainable import add_lora
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import CORPUS, tiny_config
from vlrft.trainer.memory_plan.device_memory import available_memory, parse_size
from vlrft.trainer.memory_plan.model_shapes import load_model_shape
from vlrft.trainer.memory_plan.planner import Planner
from vlrft.trainer.memory_plan.prompt_lengths import TaskPrompts

CONFIGS = sorted((Path(__file__).parents[3] / "configs").glob("*.yaml"))
OPTIONS = "task.options={subtasks: [classify], train: 40}"
AGAIN = "algorithm={name: gpg, keep: dynamic_sampling, correction: {}}"
QUICK = [OPTIONS, *(f"stages.{name}.{OPTIONS}" for name in ("sft", "gpg")), "rollout.max_tokens=4"]


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's config without weights."""
    model = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS).model
    model.config.save_pretrained(tmp_path)
    return tmp_path


def test_weights_are_counted_as_training_holds_them() -> None:
    tokenizer = build_tokenizer(BuildConfig(vocab_size=300), CORPUS)
    for settings in (
        {},
        {"lora": LoraConfig(rank=4)},
        {"freeze": ("vision",), "dtype": "bfloat16"},
    ):
        config = tiny_config("qwen2_5_vl", **settings)
        policy = load_policy(config, corpus=CORPUS)
        weights = load_model_shape(config, tokenizer=tokenizer, device="cpu").weights
        parameters = list(policy.model.parameters())
        assert weights.total == sum(p.nbytes for p in parameters)
        assert weights.trained == sum(p.nbytes for p in parameters if p.requires_grad)


def test_no_gradient_passes_through_a_frozen_tower() -> None:
    def gradient(*freeze: str) -> tuple[str, bool, str]:
        config = tiny_config("qwen2_vl", freeze=freeze)
        model = load_model_shape(
            config, tokenizer=build_tokenizer(BuildConfig(vocab_size=300), CORPUS), device="cpu"
        )
        assert model.tower is not None
        return model.tower.gradient, model.tower.projector, model.decoder.gradient

    assert gradient() == ("all", True, "all")
    assert gradient("vision") == ("none", True, "all")
    assert gradient("vision", "projector") == ("none", False, "all")
    assert gradient("language") == ("all", True, "flow")


def test_a_gpu_that_this_machine_lacks_computes_in_bfloat16() -> None:
    config = tiny_config("qwen2")
    tokenizer = build_tokenizer(BuildConfig(vocab_size=300), CORPUS)
    assert load_model_shape(config, tokenizer=tokenizer, device="cuda").element == 2
    assert load_model_shape(config, tokenizer=tokenizer, device="cpu").element == 4


def test_no_weights_are_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[Any] = []

    def add(model: Any, config: LoraConfig) -> Any:
        models.append(add_lora(model, config))
        return models[-1]

    monkeypatch.setattr("vlrft.trainer.memory_plan.model_shapes.add_lora", add)
    config = tiny_config("qwen2_vl", lora=LoraConfig(rank=2))
    tokenizer = build_tokenizer(BuildConfig(vocab_size=300), CORPUS)
    load_model_shape(config, tokenizer=tokenizer, device="cpu")
    assert all(p.is_meta for p in models[0].parameters())


def test_doctor_prints_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "quickstart", *QUICK, "--memory", "8GiB"]) == 0
    out = capsys.readouterr().out
    assert "the first 32 of digits/train" in out
    assert "reference weights" in out  # of the stage whose algorithm has a KL term
    assert "fits: " in out
    assert re.search(r"peak: evaluation \(encoding images\), \d+ MiB", out)


def test_doctor_proposes_a_config_that_fits_and_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "quickstart", *QUICK, "--memory", "200MiB"]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("does not fit: "))
    assert any("update.max_tokens_per_micro_batch=" in line for line in lines[at:-1])
    words = shlex.split(lines[-1])
    assert words[:3] == ["vlrft", "train", "quickstart"]
    assert main(["doctor", *words[2:], "--memory", "200MiB"]) == 0


def test_a_proposed_command_names_each_key_once(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["doctor", "quickstart", *QUICK, "update.max_tokens_per_micro_batch=30000"]
    assert main([*command, "--memory", "200MiB"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    keys = [word.partition("=")[0] for word in shlex.split(last)]
    assert keys.count("update.max_tokens_per_micro_batch") == 1


def test_a_proposed_command_replaces_a_setting_of_a_stage_by_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits = [f"stages.{name}.update.max_tokens_per_micro_batch=30000" for name in ("sft", "gpg")]
    assert main(["doctor", "quickstart", *QUICK, *limits, "--memory", "200MiB"]) == 1
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert not set(limits) & set(words)
    stages = load_config("quickstart", words[3:]).stages
    assert all(stage.update.max_tokens_per_micro_batch < 30000 for stage in stages)


def test_the_proposed_config_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.yaml"
    command = ["doctor", "quickstart", *QUICK, "--memory", "200MiB", "--write", str(file)]
    assert main(command) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == f"written: {file}"
    assert load_config(str(file)) == load_config("quickstart", shlex.split(out[-2])[3:])
    assert main(["doctor", str(file), "--memory", "200MiB"]) == 0
    assert main(command) == 2
    assert "the file is there" in capsys.readouterr().err


def test_where_nothing_fits_doctor_says_so_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "small.yaml"
    monkeypatch.setattr("vlrft.cli.doctor.planner.propose", lambda *_: None)
    assert main(["doctor", "quickstart", *QUICK, "--memory", "1KiB", "--write", str(file)]) == 2
    captured = capsys.readouterr()
    assert "nothing that doctor tries makes it fit" in captured.out
    assert "there is no config that fits" in captured.err
    assert not file.exists()


def test_a_plan_from_the_longest_prompt_says_so(folder: Path, no_hub: None) -> None:
    config = load_config(CONFIGS[0].with_name("geoqa_gpg.yaml"), [f"policy.model={folder}"])
    (one,) = Planner(config, "cpu").plans(config)
    assert one.origin.startswith("bounds of the config")
    assert one.plan.peak.total > 0


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_shipped_config_has_a_plan_or_names_what_is_missing(
    path: Path, no_hub: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the working directory may have the model of `make demo-text`
    config = load_config(path)
    if config.policy.build is not None:
        plans = Planner(config, "cpu").plans(config)
        assert all(one.plan.peak.total > 0 for one in plans)
        return
    began = time.monotonic()
    with pytest.raises(ConfigError) as refused:
        Planner(config, "cpu")
    (line,) = refused.value.mistakes
    assert line.startswith(f"policy.model={config.policy.model}: ")
    assert "policy.model=DIR" in line or "no such folder" in line
    assert time.monotonic() - began < 10  # the hub's own client tries for half a minute


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    config = load_config("quickstart")
    policy = replace(config.policy, build=None, model=str(tmp_path))
    with pytest.raises(ConfigError, match=r"no config\.json in this folder"):
        load_model_shape(policy, tokenizer=None, device="cpu")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(ConfigError, match="not a causal model"):
        load_model_shape(policy, tokenizer=None, device="cpu")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GiB", 80 * 2**30),
        ("24 GB", 24 * 10**9),
        ("1.5gib", 3 * 2**29),
        ("80", 80 * 2**30),
        ("85899345920", 80 * 2**30),
    ],
)
def test_sizes_of_memory(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["much", "80 apples", "-1GiB", "0"])
def test_wrong_sizes_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a size such as 80GiB"):
        parse_size(text)


def test_a_gpu_that_this_machine_lacks_needs_a_size() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match="give --memory"):
        available_memory(None, "cuda")
    assert available_memory("80GiB", "cuda") == (80 * 2**30, "a GPU with 80.00 GiB")


def test_a_plan_for_ranks_is_that_of_one_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    engine = "engine={name: deepspeed, stage: 3}"
    command = ["doctor", "quickstart", *QUICK, engine, "device=cuda", "--memory", "8GiB"]
    assert main([*command, "--ranks", "4"]) == 0
    out = capsys.readouterr().out
    assert "Peak memory of one of 4 ranks on a GPU with 8.00 GiB" in out
    assert "gathered weights" in out
    assert "communication buckets" in out


@pytest.mark.parametrize("ranks", ["0", "-2"])
def test_fewer_ranks_than_one_are_refused(capsys: pytest.CaptureFixture[str], ranks: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", "quickstart", "--ranks", ranks])
    assert f"--ranks: {ranks} is out of range; allowed: at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["doctor", "show"])
@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("engine=deepsped", "engine: unknown train engine 'deepsped'; did you mean deepspeed?"),
        ("rollout.engine=hff", "rollout.engine: unknown rollout engine 'hff'; did you mean hf?"),
        ("rollout.engine={name: hf, rows: 1}", "rollout.engine.rows: unknown key"),
    ],
)
def test_engines_are_checked(
    capsys: pytest.CaptureFixture[str], command: str, setting: str, hint: str
) -> None:
    assert main([command, "quickstart", *QUICK, setting]) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("engine=fsdp", "fsdp does not train over 4-bit weights"),
        ("policy.lora=null", "4-bit weights are not trained, adapters on them are"),
    ],
)
def test_4_bit_weights_that_train_refuses_have_no_plan(
    capsys: pytest.CaptureFixture[str], folder: Path, setting: str, said: str
) -> None:
    policy = [f"policy.model={folder}", "policy.quantization=nf4", "policy.lora={rank: 4}"]
    assert main(["doctor", "quickstart", "policy.build=null", *policy, setting]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["rollout.ahead=1"], "the rollout engine hf samples with the module that is trained"),
        (
            ["--ranks", "2", "rollout.ahead=1", "rollout.engine=vllm", AGAIN],
            "stage gpg: rollout.ahead: 1 on 2 ranks, but algorithm.keep samples up to 10 times",
        ),
    ],
)
def test_rollouts_ahead_that_train_refuses_have_no_plan(
    capsys: pytest.CaptureFixture[str], settings: list[str], said: str
) -> None:
    assert main(["doctor", "quickstart", *QUICK, *settings]) == 2
    assert said in capsys.readouterr().err


def test_the_extras_that_doctor_names_exist() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    section = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = set(re.findall(r"^(\w+) = ", section, re.MULTILINE))
    assert set(EXTRAS) == extras - {"all", "dev", "docs", "smollm"}


def test_several_ranks_share_the_prompts() -> None:
    config = load_config("quickstart", QUICK)
    one, four = (Planner(config, "cpu", ranks).plans(config) for ranks in (1, 4))
    for alone, rank in zip(one, four, strict=True):
        assert rank.plan.peak.total < alone.plan.peak.total


def test_a_rank_is_planned_with_the_longest_prompts_that_it_may_get() -> None:
    sizes = tuple(PromptSize(tokens=n) for n in (3, 9, 5, 7, 1))
    prompts = TaskPrompts(sizes=sizes, origin="")
    assert [p.tokens for p in prompts.largest_shard(5, 1)] == [3, 9, 5, 7, 1]
    assert [p.tokens for p in prompts.largest_shard(5, 2)] == [9, 7, 5]
    assert [p.tokens for p in prompts.largest_shard(2, 8)] == [9]
    assert len(replace(prompts, turns=3).largest_shard(4, 4)) == 3


def test_a_rollout_engine_that_would_not_run_is_refused_before_a_plan_says_that_the_run_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config("quickstart", ["rollout.engine={name: vllm, python: /none/python}"])
    plan = SimpleNamespace(config=config, fits=True)
    monkeypatch.setattr(page, "plan_config", lambda *_: plan)
    monkeypatch.setattr(page, "plan_lines", lambda _: ["fits"])
    with pytest.raises(ConfigError, match=r"^rollout\.engine\.python: /none/python does not run"):
        page.print_plan("quickstart", [], None, None)
    assert capsys.readouterr().out == ""


def test_a_rollout_engine_without_a_memory_model_is_left_out_and_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = "tests.trainer.test_rollout_engine:Recorder"
    assert main(["doctor", "quickstart", *QUICK, f"rollout.engine={engine}"]) == 0
    page = capsys.readouterr().out
    assert f"rollout.engine {engine} has no memory model" in page
    assert "keys and values" not in page


def test_ranks_share_the_memory_of_a_cpu() -> None:
    alone, _ = available_memory(None, "cpu")
    half, where = available_memory(None, "cpu", 2)
    assert half == alone // 2
    assert where.endswith(", shared by 2 ranks")


def test_a_mistake_in_the_config_is_the_error_that_a_run_would_stop_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a plan from the bounds of the config, as where the data are not here."""
    reward = tmp_path / "bad.py"
    reward.write_text("def bad(text, answer, something):\n    return 1.0\n")
    arguments = ["quickstart", f"task.rewards={{{reward}:bad: 1.0}}"]
    messages = []
    for command in (["doctor"], ["train", "--out", str(tmp_path / "run")]):
        assert main([command[0], *arguments, *command[1:]]) == 2
        messages.append(capsys.readouterr().err.strip().splitlines()[-1])
    assert "its parameters are (text, answer, something)" in messages[0]
    assert messages[0] == messages[1]
