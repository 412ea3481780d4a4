"""DeepSpeed's configuration: vlrft's settings, with every default that changes results, and those of a user's file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vlrft.config import UpdateConfig
from vlrft.plugins.names import did_you_mean
from vlrft.schema.errors import ConfigError

Tree = dict[str, Any]
NO_DEVICE = {"device": "none"}  # DeepSpeed's default
ALLOWED = (  # keys that a file may set: they change speed, memory or reports, and no result
    "aio",
    "comms_logger",
    "dump_state",
    "flops_profiler",
    "memory_breakdown",
    "steps_per_print",
    "wall_clock_breakdown",
    "zero_optimization.allgather_bucket_size",
    "zero_optimization.log_trace_cache_warnings",
    "zero_optimization.offload_optimizer.pin_memory",
    "zero_optimization.reduce_bucket_size",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.stage3_max_live_parameters",
    "zero_optimization.stage3_max_reuse_distance",
    "zero_optimization.stage3_param_persistence_threshold",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.sub_group_size",
)
MAX_BUCKET = 500_000_000  # elements, DeepSpeed's default
AUTO = "auto"  # transformers' word for a value that the trainer sets


def required_settings(*, update: UpdateConfig, stage: int, offload: bool, half: bool) -> Tree:
    """The settings that vlrft's results depend on. `half`: weights in bfloat16.

    DeepSpeed's defaults would clip gradients to 1.0 and sum half-precision gradients in half precision.
    """
    zero: Tree = {
        "stage": stage,
        "overlap_comm": False,
        "contiguous_gradients": True,
        "reduce_scatter": True,
    }
    if offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    tree: Tree = {
        "train_micro_batch_size_per_gpu": 1,  # only multiplied by DeepSpeed; our micro-batches are measured in tokens
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,  # the caller decides when to step
        "gradient_clipping": update.max_grad_norm or 0.0,
        "prescale_gradients": False,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,  # torch's AdamW
        "zero_force_ds_cpu_optimizer": False,
        "fp16": {"enabled": False},
        "bf16": {"enabled": half, "check_grad_overflow": True} if half else {"enabled": False},
        "communication_data_type": "fp32",
        "data_types": {"grad_accum_dtype": "fp32"},
    }
    return tree


def default_settings(trained: int) -> Tree:
    """Settings that a file may change: buckets no larger than the `trained` elements fill, since ZeRO-3 allocates them at
    the start, and no progress lines."""
    return {
        "zero_optimization": {"reduce_bucket_size": min(MAX_BUCKET, trained)},
        "steps_per_print": 2**31,
    }


def merge_file(required: Tree, path: str | None, defaults: Tree) -> Tree:
    """Merges the required settings, a user's file and defaults; earlier ones take precedence.

    Raises ConfigError with a line for every key of the file that contradicts the config, and for a file that cannot be
    read.
    """
    if path is None:
        return _merge(defaults, required)
    try:
        tree = json.loads(Path(path).expanduser().read_text())
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        raise ConfigError([f"engine.config={path}: cannot be read: {reason}"]) from None
    if not isinstance(tree, dict):
        raise ConfigError([f"engine.config={path}: expected an object"])
    mistakes = [f"engine.config={path}: {line}" for line in conflicts(required, tree)]
    if mistakes:
        raise ConfigError(mistakes)
    return _merge(_merge(defaults, _without_auto(tree)), required)


CONFIG_KEYS = {  # DeepSpeed's key -> the key of our config that sets it
    "gradient_clipping": "update.max_grad_norm",
    "zero_optimization.stage": "engine.stage",
    "zero_optimization.offload_optimizer.device": "engine.offload",
    "bf16.enabled": "policy.dtype",
    "fp16.enabled": "policy.dtype, which is never float16,",
    "gradient_accumulation_steps": "update.max_tokens_per_micro_batch",
    "train_micro_batch_size_per_gpu": "update.max_tokens_per_micro_batch",
}
REPLACED_BY = {  # DeepSpeed's section -> the key of our config to use in its place
    "activation_checkpointing": "policy.activation_checkpointing",
    "optimizer": "update",
    "scheduler": "update.schedule",
    "train_batch_size": "prompts_per_step",
}


def conflicts(required: Mapping[str, Any], tree: Mapping[str, Any]) -> Iterator[str]:
    """A line for each key of a file's `tree` that contradicts the config or may change results."""
    zero = {"offload_optimizer": NO_DEVICE, **required["zero_optimization"]}
    ours = {**required, "zero_optimization": zero}
    for path, value in _leaves(tree):
        wanted = _at(ours, path)
        section = path.split(".")[0]
        empty = value == {} and isinstance(wanted, Mapping)
        if value == AUTO or empty or path in ALLOWED or section in ALLOWED:
            continue
        if section in REPLACED_BY:
            yield f"{path}: set {REPLACED_BY[section]} in the config instead; remove this key"
        elif isinstance(wanted, Mapping):
            yield f"{path}: expected an object, got {value!r}"
        elif wanted is None:
            hint = did_you_mean(path, [*ALLOWED, *(leaf for leaf, _ in _leaves(ours))])
            yield f"{path}: may change results{hint or '; remove it'}"
        elif value != wanted:
            key = CONFIG_KEYS.get(path, "vlrft")
            yield f"{path}: {value!r}, but {key} says {wanted!r}; remove it or change one"


def _without_auto(tree: Mapping[str, Any]) -> Tree:
    """The file's tree without the values that it leaves to the trainer."""
    decided = {key: value for key, value in tree.items() if value != AUTO}
    return {k: _without_auto(v) if isinstance(v, Mapping) else v for k, v in decided.items()}


def _leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _at(tree: Mapping[str, Any], path: str) -> Any:
    for key in path.split("."):
        if not isinstance(tree, Mapping) or key not in tree:
            return None
        tree = tree[key]
    return tree


def _merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> Tree:
    """Both trees; `upper` wins where both have a value."""
    out: Tree = dict(lower)
    for key, value in upper.items():
        below = lower.get(key)
        out[key] = (
            _merge(below, value)
            if isinstance(below, Mapping) and isinstance(value, Mapping)
            else value
        )
    return out
