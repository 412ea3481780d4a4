"""vlrft doctor: installed packages and devices, and the planned peak memory of a config's run."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from vlrft.schema.errors import ConfigError

CORE = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "pillow",
    "pydantic",
    "rich",
)
# Of the base install too. A machine without them trains on rows in jsonl or json all the same.
PARTS = {  # package -> its use
    "datasets": "data sets on the hub, parquet and arrow files",
    "qwen-vl-utils": "messages in Qwen's own form",
    "shtab": "completion in the shell",
}
EXTRAS = {  # extra -> its package and its use
    "digits": ("scikit-learn", "the pack that needs no download"),
    "math": ("math-verify", "formulas as answers"),
    "text": ("sacrebleu", "BLEU"),
    "peft": ("peft", "LoRA"),
    "quantization": ("bitsandbytes", "LoRA on 4-bit weights"),
    "trl": ("trl", "vlrft's algorithms in TRL's GRPOTrainer"),
    "detection": ("pycocotools", "mean average precision of boxes"),
    "excel": ("openpyxl", "predictions in xlsx files"),
    "video": ("av", "videos"),
    "deepspeed": ("deepspeed", "weights and optimiser sharded over ranks"),
    "vllm": ("msgpack", "rollouts from servers of vLLM"),
    "alfworld": ("alfworld", "agents in ALFWorld's games"),
    "tensorboard": ("tensorboard", "curves in TensorBoard"),
    "wandb": ("wandb", "Weights & Biases"),
    "trackio": ("trackio", "trackio"),
}
IMAGES = {  # state of torchvision -> what it means for images
    "healthy": "fits torch: transformers chooses the image processor",
    "repaired": "its compiled operators do not load beside this torch (its build is for other CUDA libraries): made importable"
    " for vlrft, PIL image processors in use. A pair that fits comes from one index, in one command:"
    " pip install torch torchvision",
    "absent": "not installed (pip install torchvision): PIL image processors in use",
}

OF_A_PLAN = ("memory", "ranks", "write")  # options


def run(args: argparse.Namespace) -> int:
    """0; 1 where a package of the base install is missing, or the config's run does not fit.

    Raises ConfigError for an option that plans a run where no config is given.
    """
    missing = [name for name in CORE if _version(name) is None]
    if args.config is None:
        given = [f"--{name}" for name in OF_A_PLAN if getattr(args, name) is not None]
        if given:
            raise ConfigError(
                [f"{given[0]} needs a CONFIG: without one doctor lists packages and devices"]
            )
        _print_versions(missing)
        return 1 if missing else 0
    from vlrft.cli.doctor.page import print_plan

    for name in missing:
        print(f"{name:13s} MISSING: pip install {name}")
    versions = ", ".join(f"{name} {_version(name)}" for name in ("torch", "transformers"))
    print(f"python {platform.python_version()}, {versions} (vlrft doctor alone lists all packages)")
    fits = print_plan(args.config, args.overrides, args.memory, args.ranks, args.write)
    return 0 if fits and not missing else 1


def _print_versions(missing: Sequence[str]) -> None:
    print(f"python        {platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in CORE:
        print(f"{name:13s} {'MISSING: pip install ' + name if name in missing else _version(name)}")
    for package, use in PARTS.items():
        print(
            f"{package:13s} {_version(package) or f'not installed (pip install {package})'}   {use}"
        )
    for extra, (package, use) in EXTRAS.items():
        line = _version(package) or f"not installed (pip install vlrft[{extra}])"
        print(f"{package:13s} {line}   {use}")
    if find_spec("torch") is not None:
        _torchvision()
        _devices()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _torchvision() -> None:
    from vlrft.vision.processor import prepare_torchvision

    state = prepare_torchvision().state
    number = "" if state == "absent" else f"{_version('torchvision')}   {state}: "
    print(f"torchvision   {number}{IMAGES[state]}")


def _devices() -> None:
    import torch

    print(f"cpu           {os.cpu_count()} cores, {torch.get_num_threads()} torch threads")
    if not torch.cuda.is_available():
        print("cuda          none: training runs on the CPU in float32")
        return
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        half = torch.cuda.is_bf16_supported()
        print(f"cuda:{index}        {gpu.name}, {gpu.total_memory / 1e9:.0f} GB, bfloat16 {half}")
