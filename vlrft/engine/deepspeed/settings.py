"""The JSON that DeepSpeed runs by: ours, with every default that changes the mathematics, and a user's own besides it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vlrft.config import UpdateConfig
from vlrft.plugins.names import did_you_mean
from vlrft.schema.errors import ConfigError

Tree = dict[str, Any]
NO_DEVICE = {"device": "none"}  # what DeepSpeed takes where nothing is said
FREE = (  # what a file may set besides ours: speed, memory and reports, and no number
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
MAX_BUCKET = 500_000_000  # elements, DeepSpeed's own
AUTO = "auto"  # as transformers writes for "whatever the trainer says"


def settings(*, update: UpdateConfig, stage: int, offload: bool, half: bool) -> Tree:
    """What vlrft asks for. `half`: weights in bfloat16.

    DeepSpeed's own defaults would clip gradients to 1.0, and sum half-precision ones in half precision.
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
        "train_micro_batch_size_per_gpu": 1,  # DeepSpeed only multiplies it; our micro-batches are measured in tokens
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,  # a step is where we say it is
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


def advised(parameters: int) -> Tree:
    """What a file may say otherwise: no larger buckets than the trained parameters fill, for ZeRO-3 takes their memory
    from the start; no lines of progress."""
    return {
        "zero_optimization": {"reduce_bucket_size": min(MAX_BUCKET, parameters)},
        "steps_per_print": 2**31,
    }


def with_file(own: Tree, path: str | None, advice: Tree) -> Tree:
    """Our settings with those of a user's file besides, and advice where neither speaks. Raises ConfigError with a line
    for each thing the file says otherwise than the config, and for a file that cannot be read."""
    if path is None:
        return _merged(advice, own)
    try:
        given = json.loads(Path(path).expanduser().read_text())
    except (OSError, ValueError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        raise ConfigError([f"engine.config={path}: cannot be read: {reason}"]) from None
    if not isinstance(given, dict):
        raise ConfigError([f"engine.config={path}: expected an object"])
    mistakes = [f"engine.config={path}: {line}" for line in conflicts(own, given)]
    if mistakes:
        raise ConfigError(mistakes)
    return _merged(_merged(advice, _decided(given)), own)


SAYS = {
    "gradient_clipping": "update.max_grad_norm",
    "zero_optimization.stage": "engine.stage",
    "zero_optimization.offload_optimizer.device": "engine.offload",
    "bf16.enabled": "policy.dtype",
    "fp16.enabled": "policy.dtype, which is never float16,",
    "gradient_accumulation_steps": "update.max_tokens_per_micro_batch",
    "train_micro_batch_size_per_gpu": "update.max_tokens_per_micro_batch",
}
INSTEAD = {  # what does in vlrft what the file would
    "activation_checkpointing": "policy.activation_checkpointing",
    "optimizer": "update",
    "scheduler": "update.schedule",
    "train_batch_size": "prompts_per_step",
}


def conflicts(own: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    """A line for each key of the file that says otherwise than the config, or that may change numbers."""
    zero = {"offload_optimizer": NO_DEVICE, **own["zero_optimization"]}
    ours = {**own, "zero_optimization": zero}
    for path, value in _leaves(given):
        wanted = _at(ours, path)
        section = path.split(".")[0]
        empty = value == {} and isinstance(wanted, Mapping)
        if value == AUTO or empty or path in FREE or section in FREE:
            continue
        if section in INSTEAD:
            yield f"{path}: {INSTEAD[section]} in the config says it; take it out"
        elif isinstance(wanted, Mapping):
            yield f"{path}: expected an object, got {value!r}"
        elif wanted is None:
            hint = did_you_mean(path, [*FREE, *(known for known, _ in _leaves(ours))])
            yield f"{path}: not known to leave all numbers as they are{hint or '; take it out'}"
        elif value != wanted:
            owner = SAYS.get(path, "vlrft")
            yield f"{path}: {value!r}, but {owner} says {wanted!r}; take it out or change one"


def _decided(tree: Mapping[str, Any]) -> Tree:
    """Without what the file leaves to others."""
    kept = {key: value for key, value in tree.items() if value != AUTO}
    return {k: _decided(v) if isinstance(v, Mapping) else v for k, v in kept.items()}


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


def _merged(given: Mapping[str, Any], own: Mapping[str, Any]) -> Tree:
    """Both, ours where both speak."""
    out: Tree = dict(given)
    for key, value in own.items():
        below = given.get(key)
        out[key] = (
            _merged(below, value)
            if isinstance(below, Mapping) and isinstance(value, Mapping)
            else value
        )
    return out
