"""Folders of models that are damaged or hostile: one line before anything runs, and no code of theirs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tiny
from vlrft.config import LoraConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.policy.model_files import refuse_damage
from vlrft.schema.errors import ConfigError
from vlrft.schema.file_hashes import MANIFEST, sha256_of
from vlrft.testing.small_policies import CORPUS, tiny_config

Damage = Callable[[Path], object]
PROCESSOR, TOKENIZER = "preprocessor_config.json", "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"


def text(name: str, content: str | bytes) -> Damage:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(data)


def keys(name: str, **changes: Any) -> Damage:
    """Keys of a JSON file; `part.key` as `part__key`."""

    def change(folder: Path) -> None:
        tree = json.loads((folder / name).read_text())
        for path, value in changes.items():
            part, _, key = path.rpartition("__")
            (tree[part] if part else tree)[key] = value
        (folder / name).write_text(json.dumps(tree))

    return change


CASES: dict[str, tuple[Damage, str]] = {
    "a processor of no known kind": (keys(PROCESSOR, image_processor_type="X"), "image processor"),
    "a processor that is a list": (text(PROCESSOR, "[1]"), "its image processor cannot be loaded"),
    "a processor with patches of 0": (keys(PROCESSOR, patch_size=0), "ZeroDivisionError"),
    "a processor that enlarges": (
        keys(PROCESSOR, size={"shortest_edge": 10**9, "longest_edge": 10**9}),
        "enlarges every image to 1000000000 pixels or more; set policy.min_pixels",
    ),
    "a template that is no template": (text(TEMPLATE, "{% for %}"), "TemplateSyntaxError"),
    "a template that reaches for classes": (
        text(TEMPLATE, "{{ ''.__class__.__mro__ }}"),
        "its chat template cannot be used: SecurityError",
    ),
    "a template that raises": (
        text(TEMPLATE, "{{ raise_exception('no') }}"),
        "its chat template cannot be used: TemplateError no",
    ),
    "a template without the messages": (text(TEMPLATE, "Hi"), "leaves out what the user says"),
    "a tokenizer that is a list": (text("tokenizer.json", "[]"), "its tokenizer cannot be loaded"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer"),
    "a class that is a number": (keys(TOKENIZER, tokenizer_class=3), "its tokenizer cannot be"),
    "another architecture": (
        text("config.json", json.dumps({"model_type": "bert", "hidden_size": 7})),
        "cannot be loaded",
    ),
    "an unknown activation": (keys("config.json", text_config__hidden_act="x"), "KeyError 'x'"),
    "no heads": (keys("config.json", text_config__num_attention_heads=0), "ZeroDivisionError"),
    "a size that is text": (
        keys("config.json", text_config__hidden_size="a"),
        "Field 'hidden_size' expected int, got str",
    ),
    "an image token beyond the vocabulary": (
        keys("config.json", image_token_id=10**9),
        "0 image placeholders in the rendered prompt for 1 images",
    ),
    "a generation config that is cut": (
        text("generation_config.json", '{"eos_token_id": [1'),
        "generation_config.json is not JSON; it names the tokens that end an answer",
    ),
    "an end that is no id": (
        text("generation_config.json", '{"eos_token_id": [2, null]}'),
        "generation_config.json: eos_token_id is [2, None]; expected ids of tokens",
    ),
    "weights that are none": (text("model.safetensors", b"junk" * 99), "cannot be loaded"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from vlrft.testing.small_policies import CORPUS, tiny_config

    folder = tmp_path_factory.mktemp("good")
    load_policy(tiny_config("qwen2_vl"), corpus=CORPUS).save(folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_folder_is_one_line_that_names_it(name: str, good: Path, tmp_path: Path) -> None:
    damage, problem = CASES[name]
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    damage(folder)
    with pytest.raises(ConfigError) as caught:
        load_policy(PolicyConfig(model=str(folder)))
    (line,) = caught.value.mistakes
    assert line.startswith(f"policy.model={folder}: ")
    assert problem in line
    assert len(line.splitlines()) == 1
    assert caught.value.exit_code == 2


def test_code_that_a_folder_names_is_not_run(good: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    (folder / "evil.py").write_text("raise SystemExit('ran')\n")
    for file, auto in (
        (PROCESSOR, "AutoImageProcessor"),
        (TOKENIZER, "AutoTokenizer"),
        ("config.json", "AutoConfig"),
    ):
        keys(file, auto_map={auto: "evil.Evil"})(folder)
    assert load_policy(PolicyConfig(model=str(folder))).chat.end_ids


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokens for text"),
        (keys(TOKENIZER, eos_token=None), "has no token that ends a text (eos_token)"),
    ],
)
def test_a_tokenizer_of_a_text_model_that_cannot_write_is_refused(
    tiny: Tiny, tmp_path: Path, damage: Damage, problem: str
) -> None:
    tiny("qwen2").save(tmp_path)
    damage(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_policy(PolicyConfig(model=str(tmp_path)))
    assert problem in str(caught.value)


def test_adapters_for_a_pattern_that_is_none_are_refused(good: Path) -> None:
    pytest.importorskip("peft")
    config = PolicyConfig(model=str(good), lora=LoraConfig(target_modules="("))
    with pytest.raises(ConfigError, match=r"policy.lora.target_modules: '\(': missing \)"):
        load_policy(config)


def test_image_sizes_that_contradict_each_other_are_refused(good: Path) -> None:
    with pytest.raises(ConfigError, match="images of at least 3136 and at most 1 pixels"):
        load_policy(PolicyConfig(model=str(good), max_pixels=1))
    with pytest.raises(
        ConfigError, match=r"^policy\.build: images of at least 3136 and at most 784 pixels; set"
    ):
        load_policy(tiny_config("qwen2_vl", max_pixels=784), corpus=CORPUS)
    with pytest.raises(ValueError, match="min_pixels 5000, more than max_pixels 3136"):
        PolicyConfig(min_pixels=5000, max_pixels=3136)


def write_manifest(folder: Path) -> None:
    files = {p.name: sha256_of(p) for p in sorted(folder.iterdir())}
    files |= {"trainer/state.json": "0" * 64}  # what is not the model's does not matter here
    (folder / MANIFEST).write_text(json.dumps({"step": 1, "score": None, "files": files}))


def test_a_checkpoint_as_it_was_written_is_loaded(good: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    write_manifest(folder)
    assert load_policy(PolicyConfig(model=str(folder))).chat.end_ids


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "generation_config.json"])
def test_a_checkpoint_with_a_flipped_bit_is_refused(good: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    write_manifest(folder)
    content = bytearray((folder / name).read_bytes())
    content[-20] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ConfigError, match=f"{name} has changed since it was written; use another"):
        load_policy(PolicyConfig(model=str(folder)))


def test_a_checkpoint_that_lacks_a_file_is_refused(good: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    write_manifest(folder)
    (folder / TOKENIZER).unlink()
    with pytest.raises(ConfigError, match=f"{TOKENIZER} is missing"):
        load_policy(PolicyConfig(model=str(folder)))


@pytest.mark.parametrize("content", ["{}", "[]", '{"files": {"a": 3}}', '{"files": 3}', "{"])
def test_a_manifest_of_something_else_is_nothing_to_a_model(
    good: Path, tmp_path: Path, content: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(good, folder)
    (folder / MANIFEST).write_text(content)
    refuse_damage(str(folder))
    assert load_policy(PolicyConfig(model=str(folder))).chat.tokenizer is not None
