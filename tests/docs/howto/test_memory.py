"""The plan that docs/howto/memory.md shows is the one that `vlrft doctor` prints."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from transformers import Qwen2_5_VLConfig

from tests.docs.pages import blocks, read_page
from vlrft.cli.main import main

(SHOWN,) = blocks(read_page("docs/howto/memory.md"), "text")
TEXT_3B = {
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
}
VISION_3B = {
    "depth": 32,
    "hidden_size": 1280,
    "num_heads": 16,
    "intermediate_size": 3420,
    "out_hidden_size": 2048,
}


def test_the_plan_is_printed_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Qwen2_5_VLConfig(
        text_config=TEXT_3B,
        vision_config=VISION_3B,
        tie_word_embeddings=True,
        architectures=["Qwen2_5_VLForConditionalGeneration"],
    )
    config.save_pretrained(tmp_path / "DIR")
    monkeypatch.chdir(tmp_path)
    command, _, plan = SHOWN.partition("\n")
    main(shlex.split(command.removeprefix("$ vlrft ")))
    assert plan in capsys.readouterr().out
