from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vlrft.config import UpdateConfig
from vlrft.engine import find_engine
from vlrft.engine.deepspeed.settings import advised, settings, with_file
from vlrft.schema.errors import ConfigError


def ours(**update: Any) -> dict[str, Any]:
    return settings(update=UpdateConfig(**update), stage=2, offload=False, half=True)


def test_clipping_is_ours_and_not_the_1_that_deepspeed_would_take() -> None:
    assert ours(max_grad_norm=0.3)["gradient_clipping"] == 0.3
    assert ours(max_grad_norm=None)["gradient_clipping"] == 0.0


def test_buckets_are_no_larger_than_the_model_unless_a_file_says_so() -> None:
    zero = with_file(ours(), None, advised(7))["zero_optimization"]
    assert (zero["reduce_bucket_size"], zero["stage"]) == (7, 2)
    assert advised(10**10)["zero_optimization"] == {"reduce_bucket_size": 500_000_000}


def test_a_file_adds_what_we_say_nothing_of(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    given = {
        "zero_optimization": {"stage": "auto", "reduce_bucket_size": 5},
        "train_batch_size": "auto",
        "flops_profiler": {"enabled": False},
        "steps_per_print": 9,
    }
    file.write_text(json.dumps(given))
    found = with_file(ours(), str(file), advised(7))
    assert found["zero_optimization"] == {**ours()["zero_optimization"], "reduce_bucket_size": 5}
    assert found["flops_profiler"] == {"enabled": False}
    assert found["steps_per_print"] == 9
    assert "train_batch_size" not in found
    file.write_text('{"zero_optimization": {"reduce_bucket_size": "auto"}}')
    assert with_file(ours(), str(file), advised(7)) == with_file(ours(), None, advised(7))
    assert found["bf16"]["enabled"] is True


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"gradient_clipping": 5.0}, "gradient_clipping: 5.0, but update.max_grad_norm says 1.0"),
        (
            {"zero_optimization": {"stage": 3}},
            "zero_optimization.stage: 3, but engine.stage says 2",
        ),
        ({"bf16": {"enabled": False}}, "bf16.enabled: False, but policy.dtype says True"),
        ({"fp16": {"enabled": True}}, "fp16.enabled: True, but policy.dtype"),
        ({"optimizer": {}}, "optimizer: update in the config says it"),
        ({"optimizer": {"type": "Adam"}}, "optimizer.type: update in the config says it"),
        ({"train_batch_size": 64}, "train_batch_size: prompts_per_step in the config says it"),
        ({"torch_autocast": {"enabled": True}}, "torch_autocast.enabled: not known to leave all"),
        (
            {"gradient_cliping": 1.0},
            "gradient_cliping: not known to leave all numbers as they are; did you mean",
        ),
        ({"zero_optimization": None}, "zero_optimization: expected an object, got None"),
        ({"zero_optimization": {"offload_optimizer": "cpu"}}, "expected an object, got 'cpu'"),
        ({"zero_optimization": {"zero_quantized_weights": True}}, "not known to leave all numbers"),
        (
            {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}},
            "'cpu', but engine.offload says 'none'",
        ),
    ],
)
def test_what_a_file_says_otherwise_is_named(
    tmp_path: Path, given: dict[str, Any], line: str
) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps(given))
    with pytest.raises(ConfigError, match=r"engine\.config=") as error:
        with_file(ours(), str(file), advised(7))
    assert len(error.value.mistakes) == 1
    assert line in error.value.mistakes[0]


def test_every_conflict_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text('{"gradient_clipping": 2, "scheduler": {"type": "x"}}')
    with pytest.raises(ConfigError) as error:
        with_file(ours(), str(file), advised(7))
    assert len(error.value.mistakes) == 2
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        with_file(ours(), str(tmp_path / "none.json"), advised(7))
    file.write_text("[]")
    with pytest.raises(ConfigError, match="expected an object"):
        with_file(ours(), str(file), advised(7))


def test_engines_are_found_by_name() -> None:
    assert find_engine("single") == find_engine({"name": "single"})
    with pytest.raises(ConfigError, match="did you mean deepspeed"):
        find_engine("deepsped")
    with pytest.raises(ConfigError, match=r"engine\.stage"):
        find_engine({"name": "deepspeed", "stage": 4})
    with pytest.raises(ConfigError, match="needs a `name`"):
        find_engine({"stage": 2})
    with pytest.raises(ConfigError, match=r"engine\.stage: unknown key; there are none here"):
        find_engine({"name": "single", "stage": 2})
