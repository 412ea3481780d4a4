"""The page on vLLM: its settings are settings, and its links are files."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import yaml

from vlrft.rollout.engines import find_rollout_engine
from vlrft.rollout.engines.vllm.settings import Settings

PAGE = (Path(__file__).parents[3] / "docs/howto/vllm.md").read_text()


def test_every_choice_of_the_engine_on_the_page_can_be_made() -> None:
    choices = re.findall(r"rollout\.engine=\"(\{[^\"]*\})\"", PAGE)
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)]
    names = re.findall(r"```yaml\n# (\w+)", PAGE)
    assert names == ["eight_gpus", "cluster"]
    chosen = [yaml.safe_load(c) for c in choices] + [b["rollout"]["engine"] for b in blocks]
    assert len(chosen) == 6
    for choice in chosen:
        assert choice["name"] == "vllm"
        find_rollout_engine(choice)


def test_every_setting_of_the_engine_is_on_the_page() -> None:
    assert not [field.name for field in fields(Settings) if f"`{field.name}`" not in PAGE]


def test_the_pages_arguments_of_a_server_are_those_that_vlrft_gives() -> None:
    script = (Path(__file__).parents[3] / "docs/howto/vllm.sbatch").read_text()
    command = (Path(__file__).parents[3] / "vlrft/rollout/engines/vllm/command.py").read_text()
    for text in (PAGE, script):
        serve = text[text.index("-m vllm.entrypoints.cli.main serve") :].split("```")[0]
        for argument in re.findall(r"(--[a-z-]+) ", serve.split("srun")[0]):
            if argument not in ("--host", "--port", "--tensor-parallel-size"):
                assert argument in command, argument
