"""`vlrft.load_policy` and `vlrft.generate`: a model, and its answer to one question with pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter, ValidationError

from vlrft.config import PolicyConfig, RolloutConfig
from vlrft.config.errors import explain
from vlrft.data import load_qwen_messages
from vlrft.reporting.run_folder.mark import is_run
from vlrft.reporting.run_folder.names import CHECKPOINTS, LAST
from vlrft.reporting.run_result import RunResult
from vlrft.schema import IMAGE, DataError, Message
from vlrft.schema.errors import ConfigError
from vlrft.trainer.api.quiet import quiet_transformers
from vlrft.vision.images import open_image, upright_rgb

if TYPE_CHECKING:
    from PIL.Image import Image

    from vlrft.policy.policy import Policy


def load_policy(
    model: str | Path | RunResult,
    *,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    **settings: Any,
) -> Policy:
    """A model to generate with or to evaluate.

        policy = vlrft.load_policy("runs/quickstart")
        policy = vlrft.load_policy("Qwen/Qwen2-VL-2B-Instruct", dtype="bfloat16", max_pixels=401408)

    `model`: a folder, an id of the Hugging Face hub, a LoRA adapter of either, a run's folder or its result (the newest
    checkpoint). `settings`: keys of a config's section policy.

    Raises ConfigError for a model that is missing, incomplete or not supported, and for an unknown setting.
    """
    from vlrft.distributed.device import pick_device
    from vlrft.policy.checkpoint_adapter import exact_policy
    from vlrft.policy.load import load_policy as load

    try:
        config = TypeAdapter(PolicyConfig).validate_python({**settings, "model": find_model(model)})
    except ValidationError as e:
        raise ConfigError(explain(e, PolicyConfig)) from None
    with quiet_transformers():
        policy = load(exact_policy(config)[0], device=pick_device(device))
    policy.model.eval()
    return policy


def find_model(model: str | Path | RunResult) -> str:
    """The folder or hub id of a model; of a run, its newest checkpoint. Raises ConfigError for a run without one."""
    folder = model.folder if isinstance(model, RunResult) else Path(model)
    if not isinstance(model, RunResult) and not (folder.is_dir() and is_run(folder)):
        return str(model)
    last = folder / CHECKPOINTS / LAST
    if not last.is_dir():
        raise ConfigError([f"model: the run in {folder} has no checkpoint"])
    return str(last)


def generate(
    policy: Policy,
    question: str | Sequence[Mapping[str, Any]],
    images: Image | str | Path | bytes | Sequence[Image | str | Path | bytes] = (),
    *,
    system: str | None = None,
    urls: bool = False,
    max_tokens: int = 256,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int = 0,
    stop: Sequence[str] = (),
    seed: int = 0,
) -> str:
    """The policy's answer to one question, without special tokens.

        answer = vlrft.generate(policy, "Which digit is this?", "seven.png")

    `images`: one picture or several, each a PIL image, a path, or the bytes of a file; they come before the question, or
    where it says `<image>`, once for each. `question` may be messages in Qwen's own form, `[{"role": "user", "content":
    [{"type": "image", "image": "seven.png"}, {"type": "text", "text": "Which digit is this?"}]}]`, with their pictures in
    them; `urls`: load those that are URLs. `temperature` 0: greedy decoding. `seed`: of sampling.

    Raises DataError for a picture that cannot be read, for pictures with a policy that takes text only, and where the
    number of `<image>` is not that of the pictures; ConfigError for a setting out of range.
    """
    from vlrft.rollout.engines import Request, Sampling, running_engine

    if isinstance(policy, str | Path | RunResult):
        raise ConfigError(
            ["policy: give what vlrft.load_policy(model) returns, not the model's name"]
        )
    tree = {"max_tokens": max_tokens, "top_p": top_p, "top_k": top_k, "stop": list(stop)}
    try:
        rollout = TypeAdapter(RolloutConfig).validate_python(
            {**tree, "temperature": temperature or 1.0}
        )
    except ValidationError as e:
        raise ConfigError(explain(e, RolloutConfig)) from None
    pictures = tuple(_open(image, f"image {k}") for k, image in enumerate(_as_list(images)))
    if isinstance(question, str):
        messages = [Message(role="user", content=_content(question, len(pictures)))]
    elif pictures:
        raise ConfigError(["images: with messages as the question, give the pictures in them"])
    else:
        loaded, pictures = load_qwen_messages(question, urls=urls)
        messages = list(loaded)
    if system is not None:
        messages.insert(0, Message(role="system", content=(system,)))
    prompt = policy.chat.render(messages, pictures, name="question")
    sampling = Sampling(
        max_tokens=rollout.max_tokens,
        temperature=rollout.temperature if temperature else 0.0,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        stop=rollout.stop,
    )
    request = Request(id="question", prompt=prompt, seeds=(seed,))
    with running_engine(rollout, policy) as engine, policy.float32_products():
        ((piece,),) = engine.generate([request], sampling)
    return piece.text


def _as_list(images: Any) -> list[Any]:
    return list(images) if isinstance(images, list | tuple) else [images]


def _open(image: Image | str | Path | bytes, name: str) -> Image:
    """The picture in RGB, upright. Raises DataError."""
    if isinstance(image, str | Path):
        path = Path(image).expanduser()
        try:
            return open_image(path.read_bytes(), str(path))
        except OSError as e:
            raise DataError(f"{name}, {path}: cannot be read ({e.strerror})") from None
    if isinstance(image, bytes):
        return open_image(image, name)
    if not hasattr(image, "getexif"):  # PIL's
        kind = type(image).__name__
        raise DataError(f"{name}: a PIL image, a path or the bytes of a file, not {kind}")
    return upright_rgb(image, name)


def _content(question: str, pictures: int) -> tuple[Any, ...]:
    """The question with a slot for each picture: where it says `<image>`, or else before the text."""
    first, *rest = question.split("<image>")
    if not rest:
        return (*[IMAGE] * pictures, question)
    if len(rest) != pictures:
        raise DataError(f"question: {len(rest)} times <image>, but {pictures} pictures")
    parts = [first, *(part for text in rest for part in (IMAGE, text))]
    return tuple(part for part in parts if part != "")
