"""A model's own files, which anybody may have written: whatever goes wrong when they are read or first used is one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from vlrft.plugins.names import nearest
from vlrft.policy.chat import Chat
from vlrft.schema import IMAGE, Message
from vlrft.schema.errors import ConfigError
from vlrft.schema.file_hashes import MANIFEST, find_damage, read_manifest

GENERATION = "generation_config.json"
TRIAL_WORD = "Hello"
TRIAL_SIDE = 224  # pixels
MAX_ENLARGED = 2**24  # pixels of a small image after its enlargement


@contextmanager
def reading(
    source: str, problem: str = "cannot be loaded", *, key: str = "policy.model"
) -> Iterator[None]:
    """Turns every exception of libraries that read the files of a model into a ConfigError.

    Of every kind, as there is no list of what they raise: KeyError for an unknown activation, ZeroDivisionError for a model
    without heads, AttributeError for a list in place of a mapping.
    """
    try:
        yield
    except (ConfigError, MemoryError):
        raise
    except Exception as e:
        raise ConfigError([f"{key}={source}: {problem}: {_reason(e)}"]) from e


def refuse_damage(source: str) -> None:
    """Raises ConfigError for a checkpoint of a run of which a file of the model has changed: a flipped bit in its weights
    would go unnoticed. Any other folder has no sha256 of its files; only its generation_config.json has to be JSON, as
    transformers passes over one that is none, and so over the tokens that end an answer."""
    folder = Path(source)
    files = read_manifest(folder)
    damage = files and find_damage(folder, files, lambda name: not name.startswith("trainer/"))
    if damage:
        raise ConfigError(
            [
                f"policy.model={source}: {damage}; use another checkpoint, or delete its {MANIFEST} if the change is yours"
            ]
        )
    generation = folder / GENERATION
    if generation.is_file():
        _refuse_bad_ends(source, generation)


def _refuse_bad_ends(source: str, generation: Path) -> None:
    """Raises ConfigError for a generation_config.json without readable ids of the tokens that end an answer."""
    try:
        ends = json.loads(generation.read_text(encoding="utf-8")).get("eos_token_id")
    except (ValueError, RecursionError, AttributeError):
        raise ConfigError(
            [
                f"policy.model={source}: {GENERATION} is not JSON; it names the tokens that end an answer"
            ]
        ) from None
    ids = ends if isinstance(ends, list) else [] if ends is None else [ends]
    if any(type(i) is not int or i < 0 for i in ids):
        raise ConfigError(
            [
                f"policy.model={source}: {GENERATION}: eos_token_id is {str(ends)[:100]}; expected ids of tokens, such as 2"
            ]
        )


def try_chat(chat: Chat, source: str) -> None:
    """Renders a question, with an image where the model takes one. Raises ConfigError for a chat template or an image
    processor that does not work."""
    problem = "its tokenizer or its image processor cannot be used"
    with reading(source, problem):
        check_resize(chat, f"policy.model={source}")
    images = [] if chat.vision is None else [Image.new("RGB", (TRIAL_SIDE, TRIAL_SIDE))]
    question = Message(role="user", content=(*([IMAGE] if images else []), TRIAL_WORD))
    if chat.end_id is None:
        raise ConfigError(
            [f"policy.model={source}: its tokenizer has no token that ends a text (eos_token)"]
        )
    with reading(source, "its chat template cannot be used"):
        text = chat.template.begin((question,))
    if TRIAL_WORD not in text:
        raise ConfigError(
            [f"policy.model={source}: its chat template leaves out what the user says"]
        )
    with reading(source, problem):
        prompt = chat.render((question,), images)
        words = chat.tokenizer.decode(prompt.ids, skip_special_tokens=True)
    if not words.strip():
        raise ConfigError([f"policy.model={source}: its tokenizer has no tokens for text"])


def check_resize(chat: Chat, where: str) -> None:
    """Raises ConfigError, with `where` in front, for bounds of pixels that contradict each other or enlarge every image beyond all
    measure."""
    resize = chat.resize
    if resize is not None and resize.min_pixels > resize.max_pixels:
        raise ConfigError(
            [
                f"{where}: images of at least {resize.min_pixels} and at most {resize.max_pixels} pixels; "
                "set policy.min_pixels and policy.max_pixels"
            ]
        )
    if resize is not None and resize.min_pixels > MAX_ENLARGED:
        raise ConfigError(
            [
                f"{where}: its image processor enlarges every image to {resize.min_pixels} pixels or more; "
                "set policy.min_pixels"
            ]
        )


def _reason(error: Exception) -> str:
    """The first line of the message, and the second where the first only announces it; with the kind of an exception whose
    message says little."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    plain = isinstance(error, OSError | ValueError | RuntimeError) and text
    return text if plain else f"{type(error).__name__} {text}".rstrip()


def refuse_misspelled(key: str, source: str) -> None:
    """Raises ConfigError for a path that is not there and is like one that is, before the hub is asked for it: `runs/demmo`
    could be a repository too. `key`: of the config."""
    folder = Path(source).expanduser()
    if not folder.exists() and near_folder(folder):
        raise ConfigError([f"{key}={source}: no such folder{near_folder(folder)}"])


def near_folder(folder: Path) -> str:
    """A suggestion for a folder that is not there: the nearest at the first level that is wrong; empty without one."""
    missing = next(
        (p for p in (*reversed(folder.parents), folder) if p != Path() and not p.exists()), None
    )
    if missing is None or missing.parent == Path() or not missing.parent.is_dir():
        return ""
    name = nearest(missing.name, [p.name for p in missing.parent.iterdir() if p.is_dir()])
    return (
        ""
        if name is None
        else f"; did you mean {missing.parent / name / folder.relative_to(missing)}?"
    )
