"""The facts that the ranks of a run compare before they work together: settings, code, data and weights."""

from __future__ import annotations

import hashlib
import importlib
import json
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from vlrft.config import Config
from vlrft.config.shipped import package_version
from vlrft.data import RowSamples
from vlrft.distributed.agreement import Facts, require_agreement
from vlrft.distributed.device import pick_device
from vlrft.distributed.ranks import Ranks
from vlrft.plugins.references import FILE_MODULE
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Sample
from vlrft.vision.images import upright_rgb

PACKAGES = ("torch", "transformers", "numpy", "peft", "deepspeed")
OWN = ("vlrft", "vlrft.rewards", "vlrft.tasks")
FULL_SAMPLES = 8  # samples per split that are compared with their images
HASH_LENGTH = 12  # hexadecimal digits
CHUNK = 1 << 24  # numbers of a weight that are summed at once


def compare_settings(
    ranks: Ranks, config: Config, *, out: Path, resume: bool, overwrite: bool
) -> None:
    """Raises ConfigError on every rank where the ranks have different settings, arguments or code."""
    if ranks.size > 1:
        facts = setting_facts(config, out=out, resume=resume, overwrite=overwrite)
        require_agreement(ranks, facts)


def compare_tasks(ranks: Ranks, tasks: Mapping[str, LoadedTask]) -> None:
    """Raises ConfigError on every rank where the ranks have different data or plugins."""
    if ranks.size > 1:
        require_agreement(ranks, task_facts(tasks))


def compare_weights(ranks: Ranks, named: Iterable[tuple[str, Tensor]]) -> None:
    """Raises ConfigError on every rank where the ranks have different weights."""
    if ranks.size > 1:
        require_agreement(ranks, weight_facts(named))


def setting_facts(config: Config, *, out: Path, resume: bool, overwrite: bool) -> Facts:
    """The resolved config by key, the arguments of the command, the device, and the code."""
    tree = TypeAdapter(Config).dump_python(config, mode="json")
    arguments = {"--out": str(out), "--resume": str(resume), "--overwrite": str(overwrite)}
    return {
        **dict(_flat(tree)),
        **arguments,
        "the device": pick_device(config.device),
        **code_facts(),
    }


def code_facts() -> Facts:
    """Versions, and a hash of the source of vlrft and the packs that come with it."""
    return {
        "the version of vlrft": package_version(),
        "the source of vlrft (hash)": hash_of_sources(source_folders()),
        "the version of Python": ".".join(platform.python_version_tuple()[:2]),
        **{f"the version of {name}": _installed_version(name) for name in PACKAGES},
    }


def source_folders() -> list[Path]:
    """Those of vlrft, its rewards and its packs. In a checkout vlrft's path has a second entry, the checkout itself, with all that
    lies in it; it is not followed."""
    return [Path(importlib.import_module(name).__path__[0]) for name in OWN]


def hash_of_sources(folders: Iterable[Path]) -> str:
    """A hash of the Python files below the folders, by their relative paths."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:HASH_LENGTH]


def task_facts(tasks: Mapping[str, LoadedTask]) -> Facts:
    """The samples of each task, by the name that it has here, and the files of plugins that this process has loaded."""
    facts = {f"the data of {n} (hash)": hash_of_samples(t.samples) for n, t in tasks.items()}
    functions = [f for t in tasks.values() for f in (t.task.load, *(r.function for r in t.rewards))]
    modules = {str(getattr(function, "__module__", None)) for function in functions}
    modules |= {name for name in sys.modules if name.startswith(FILE_MODULE)}
    hashes: dict[str, list[str]] = {}
    for name in sorted(modules):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and Path(file).is_file():
            title = Path(file).name if name.startswith(FILE_MODULE) else name
            hashes.setdefault(title, []).append(_hexdigest(Path(file).read_bytes()))
    return facts | {
        f"the plugin {title} (hash)": ", ".join(sorted(found)) for title, found in hashes.items()
    }


def hash_of_samples(samples: Sequence[Sample]) -> str:
    """The number of samples and a hash: of the text of all of them where they are rows of a data set, and of the pictures
    of a few. Samples that a function makes are taken from a few places. Raises DataError for a picture that cannot be read."""
    digest = hashlib.sha256()
    count = len(samples)
    if isinstance(samples, RowSamples):
        for sample in samples.without_images():
            digest.update(_text_of(sample))
    places = {i * (count - 1) // (FULL_SAMPLES - 1) for i in range(FULL_SAMPLES)} if count else ()
    for k in sorted(places):
        sample = samples[k]
        digest.update(_text_of(sample))
        for image in sample.shown_images:
            pixels = upright_rgb(image, f"sample {sample.id}")
            digest.update(f"{image.mode}{image.size}".encode())
            digest.update(pixels.tobytes())
        for video in sample.shown_videos:
            digest.update(repr((video.size, *video.seconds)).encode())
            digest.update(video.pictures.tobytes())
    return f"{count} samples, {digest.hexdigest()[:HASH_LENGTH]}"


def weight_facts(named: Iterable[tuple[str, Tensor]]) -> Facts:
    """A checksum of each weight's bits, computed on its device; it does not depend on the order of summation."""
    return {f"the weight {name}": _checksum(tensor.detach()) for name, tensor in named}


def _checksum(tensor: Tensor) -> str:
    bits = tensor.contiguous().view(-1).view(torch.uint8)
    width = tensor.element_size()
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[width]
    numbers = bits.view(whole)
    sums = [
        torch.stack([part.sum(dtype=torch.int64), part[::3].sum(dtype=torch.int64)])
        for part in torch.split(numbers, CHUNK)
    ]
    return _hexdigest(
        str([list(tensor.shape), torch.stack(sums).tolist() if sums else []]).encode()
    )


def _text_of(sample: Sample) -> bytes:
    """The sample as a text that is the same in every process: values of unusual types count by their type."""
    messages = [[m.role, [str(part) for part in m.content]] for m in sample.shown_messages]
    parts = [sample.id, messages, sample.answer, dict(sample.tags)]
    try:
        return json.dumps(parts, default=lambda value: type(value).__name__).encode()
    except (TypeError, ValueError):  # keys that are no text, circles
        return json.dumps(parts[:2]).encode()


def _flat(tree: Any, path: str = "") -> Iterable[tuple[str, str]]:
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(tree, dict) and tree:
        items = tree.items()
    elif isinstance(tree, list) and tree:
        items = enumerate(tree)
    else:
        yield path, json.dumps(tree)
    for name, item in items:
        yield from _flat(item, f"{path}.{name}".lstrip("."))


def _installed_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _hexdigest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:HASH_LENGTH]
