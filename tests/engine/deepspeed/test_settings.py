from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vlrft.config import UpdateConfig
from vlrft.engine import find_engine
from vlrft.engine.deepspeed.settings import default_settings, merge_file, required_settings
from vlrft.schema.errors import ConfigError


def required(**update: Any) -> dict[str, Any]:
    return required_settings(update=UpdateConfig(**update), stage=2, offload=False, half=True)


def test_clipping_is_that_of_the_config_and_not_deepspeeds_default() -> None:
    assert required(max_grad_norm=0.3)["gradient_clipping"] == 0.3
    assert required(max_grad_norm=None)["gradient_clipping"] == 0.0


def test_buckets_are_no_larger_than_the_trained_parameters_unless_a_file_says_so() -> None:
    zero = merge_file(required(), None, default_settings(7))["zero_optimization"]
    assert (zero["reduce_bucket_size"], zero["stage"]) == (7, 2)
    assert default_settings(10**10)["zero_optimization"] == {"reduce_bucket_size": 500_000_000}


def test_a_file_adds_settings_that_change_no_result(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    tree = {
        "zero_optimization": {"stage": "auto", "reduce_bucket_size": 5},
        "train_batch_size": "auto",
        "flops_profiler": {"enabled": False},
        "steps_per_print": 9,
    }
    file.write_text(json.dumps(tree))
    merged = merge_file(required(), str(file), default_settings(7))
    assert merged["zero_optimization"] == {
        **required()["zero_optimization"],
        "reduce_bucket_size": 5,
    }
    assert merged["flops_profiler"] == {"enabled": False}
    assert merged["steps_per_print"] == 9
    assert "train_batch_size" not in merged
    file.write_text('{"zero_optimization": {"reduce_bucket_size": "auto"}}')
    assert merge_file(required(), str(file), default_settings(7)) == merge_file(
        required(), None, default_settings(7)
    )
    assert merged["bf16"]["enabled"] is True


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"gradient_clipping": 5.0}, "gradient_clipping: 5.0, but update.max_grad_norm says 1.0"),
        (
            {"zero_optimization": {"stage": 3}},
            "zero_optimization.stage: 3, but engine.stage says 2",
        ),
        ({"bf16": {"enabled": False}}, "bf16.enabled: False, but policy.dtype says True"),
        ({"fp16": {"enabled": True}}, "fp16.enabled: True, but policy.dtype"),
        ({"optimizer": {}}, "optimizer: set update in the config instead"),
        ({"optimizer": {"type": "Adam"}}, "optimizer.type: set update in the config instead"),
        ({"train_batch_size": 64}, "train_batch_size: set prompts_per_step in the config instead"),
        ({"torch_autocast": {"enabled": True}}, "torch_autocast.enabled: may change results"),
        (
            {"gradient_cliping": 1.0},
            "gradient_cliping: may change results; did you mean",
        ),
        ({"zero_optimization": None}, "zero_optimization: expected an object, got None"),
        ({"zero_optimization": {"offload_optimizer": "cpu"}}, "expected an object, got 'cpu'"),
        ({"zero_optimization": {"zero_quantized_weights": True}}, "may change results"),
        (
            {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}},
            "'cpu', but engine.offload says 'none'",
        ),
    ],
)
def test_a_key_that_contradicts_the_config_is_named(
    tmp_path: Path, tree: dict[str, Any], line: str
) -> None:
    file = tmp_path / "ds.json"
    file.write_text(json.dumps(tree))
    with pytest.raises(ConfigError, match=r"engine\.config=") as error:
        merge_file(required(), str(file), default_settings(7))
    assert len(error.value.mistakes) == 1
    assert line in error.value.mistakes[0]


def test_every_conflict_has_a_line(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text('{"gradient_clipping": 2, "scheduler": {"type": "x"}}')
    with pytest.raises(ConfigError) as error:
        merge_file(required(), str(file), default_settings(7))
    assert len(error.value.mistakes) == 2
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        merge_file(required(), str(tmp_path / "none.json"), default_settings(7))
    file.write_text("[]")
    with pytest.raises(ConfigError, match="expected an object"):
        merge_file(required(), str(file), default_settings(7))


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
