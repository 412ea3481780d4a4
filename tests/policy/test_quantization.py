"""4-bit weights under LoRA: which they are, that they train and sample alike, and that a checkpoint brings them back."""

from __future__ import annotations

import json
import shutil
import sys
import weakref
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.policy.test_load import logprobs, prompt_of, with_random_adapters
from vlrft.config import BuildConfig, LoraConfig, PolicyConfig
from vlrft.engine import check_quantization
from vlrft.policy.adapter_files import HELD
from vlrft.policy.adapters import base_of
from vlrft.policy.checkpoint_adapter import exact_policy
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.merging import PlainWeights
from vlrft.policy.packed_samples import weight_files
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.policy.quantization import is_packed, plain
from vlrft.schema.errors import ConfigError
from vlrft.testing.small_policies import noise_image
from vlrft.trainer.export import export_model, find_source
from vlrft.trainer.memory_plan.model_shapes import load_model_shape

functional = pytest.importorskip("bitsandbytes.functional", reason="the extra quantization")
LORA = LoraConfig(rank=2)


def packed_config(base: Path, **settings: Any) -> PolicyConfig:
    return PolicyConfig(model=str(base), lora=LORA, quantization="nf4", **settings)


@pytest.fixture(scope="module")
def policy(lora_base: Path) -> Policy:
    return with_random_adapters(load_policy(packed_config(lora_base)))


@pytest.fixture(scope="module")
def checkpoint(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "step_1"
    policy.save(folder)
    return folder


@pytest.fixture(scope="module")
def unpacked(policy: Policy, lora_base: Path) -> Policy:
    """The same policy on plain weights: those that the 4-bit ones stand for."""
    other = load_policy(PolicyConfig(model=str(lora_base), lora=LORA))
    packed = dict(policy.model.named_parameters())
    with torch.no_grad():
        for name, parameter in other.model.named_parameters():
            parameter.copy_(plain(packed[name]))
    return other


def gradients(policy: Policy) -> dict[str, torch.Tensor]:
    """Of the adapters, after sampling has run the model in evaluation mode."""
    policy.model.eval()
    logprobs(policy)
    policy.model.train()
    item = PackItem(prompt=prompt_of(policy, noise_image(56, 84)), rows=((5, 6, 7), (8, 9, 10)))
    mask = torch.ones(2, 3, dtype=torch.bool)
    scored = packed_logprobs(policy, [item], mask=mask, temperature=1.0).logprobs
    torch.autograd.backward((scored**2).sum())
    named = {n: p for n, p in policy.model.named_parameters() if p.grad is not None}
    found = {n: p.grad.clone() for n, p in named.items() if p.grad is not None}
    policy.model.zero_grad(set_to_none=True)
    return found


def test_the_linear_layers_of_the_decoder_are_held_in_4_bits_and_nothing_else(
    policy: Policy,
) -> None:
    packed = {n for n, p in policy.model.named_parameters() if is_packed(p)}
    kinds = {name.split(".")[-3] for name in packed}  # NAME.base_layer.weight
    assert kinds == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert len(packed) == 2 * 7
    assert not any("visual" in name for name in packed)
    others = {p.dtype for n, p in policy.model.named_parameters() if n not in packed}
    assert others == {torch.float32}
    assert policy.quantization == "nf4"


def test_log_probs_and_gradients_are_those_of_the_weights_that_they_stand_for(
    policy: Policy, unpacked: Policy
) -> None:
    assert torch.allclose(logprobs(policy), logprobs(unpacked), atol=1e-6)
    packed, other = gradients(policy), gradients(unpacked)
    assert packed.keys() == other.keys()
    norm = torch.cat([g.flatten() for g in other.values()]).norm()
    assert norm > 0
    assert max(float((packed[n] - other[n]).norm()) for n in packed) < 1e-6 * float(norm)


def test_evaluation_mode_leaves_the_weights_as_they_are(policy: Policy) -> None:
    weights = {n: p.data.clone() for n, p in policy.model.named_parameters() if is_packed(p)}
    policy.model.eval()
    inside = logprobs(policy)
    policy.model.train()
    named = dict(policy.model.named_parameters())
    assert all(torch.equal(named[n].data, data) for n, data in weights.items())
    assert torch.equal(inside, logprobs(policy))


def test_weights_are_quantised_one_after_another_while_the_files_are_read(
    lora_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, inputs, alive = functional.quantize_4bit, list[Any](), list[int]()

    def watch(weight: torch.Tensor, *args: Any, **options: Any) -> Any:
        inputs.append(weakref.ref(weight))
        alive.append(sum(ref() is not None for ref in inputs))
        return real(weight, *args, **options)

    monkeypatch.setattr(functional, "quantize_4bit", watch)
    load_policy(packed_config(lora_base))
    assert len(inputs) == 14
    assert max(alive) <= 2


def test_the_planner_counts_every_byte(policy: Policy, lora_base: Path) -> None:
    weights = load_model_shape(packed_config(lora_base), tokenizer=None, device="cpu").weights

    def held(weight: Any) -> int:
        if not is_packed(weight):
            return int(weight.nbytes)
        state = weight.quant_state
        scales = (state.absmax, state.code, state.offset, state.state2.absmax, state.state2.code)
        return int(weight.nbytes + sum(tensor.nbytes for tensor in scales))

    assert weights.total == sum(held(p) for p in policy.model.parameters())
    assert weights.trained == sum(t.nbytes for t in policy.trained_weights().values())
    assert weights.packed == max(
        plain(p).numel() for p in policy.model.parameters() if is_packed(p)
    )


def test_a_checkpoint_brings_back_the_policy_bit_by_bit(policy: Policy, checkpoint: Path) -> None:
    chosen, line = exact_policy(PolicyConfig(model=str(checkpoint)))
    assert line.endswith(f"with the adapter {checkpoint / 'adapter'}")
    again = load_policy(chosen)
    assert again.quantization == "nf4"
    assert torch.equal(logprobs(again), logprobs(policy))


def test_the_merged_folder_is_a_plain_model_of_the_weights_that_they_stand_for(
    policy: Policy, checkpoint: Path, unpacked: Policy
) -> None:
    plain_folder = load_policy(PolicyConfig(model=str(checkpoint)))
    assert plain_folder.quantization == "none"
    assert torch.allclose(logprobs(plain_folder), logprobs(policy), atol=1e-5)
    assert "quantization_config" not in json.loads((checkpoint / "config.json").read_text())
    read, expected = PlainWeights(policy.model), PlainWeights(unpacked.model)
    assert read.shapes.keys() == expected.shapes.keys()
    for name in read.shapes:
        assert torch.allclose(read.read(name), expected.read(name), atol=1e-7), name


def test_an_adapter_on_unquantised_weights_has_to_be_asked_for(checkpoint: Path) -> None:
    asked = PolicyConfig(adapter=str(checkpoint / "adapter"))
    assert base_of(asked)[0].quantization == "nf4"
    other = PolicyConfig(adapter=str(checkpoint / "adapter"), quantization="none")
    assert load_policy(other).quantization == "none"


@pytest.mark.parametrize("quantization", ["nf4", "none"])
def test_an_adapter_is_refused_on_a_base_whose_weights_have_changed_since(
    lora_base: Path, checkpoint: Path, tmp_path: Path, quantization: Literal["nf4", "none"]
) -> None:
    adapter = str(checkpoint / "adapter")
    same = shutil.copytree(lora_base, tmp_path / "base")
    on_same = PolicyConfig(adapter=adapter, model=str(same), quantization=quantization)
    assert load_policy(on_same).quantization == quantization
    weights = load_file(same / "model.safetensors")
    name = next(n for n in weights if n.endswith("layers.1.mlp.up_proj.weight"))
    weights[name] += 1e-4  # less than a step of 4 bits
    save_file(weights, same / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match="it was trained on other weights than those of"):
        load_policy(on_same)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_export_merges_into_the_numbers_that_training_computed_with(
    policy: Policy, checkpoint: Path, tmp_path: Path, dtype: Literal["float32", "bfloat16"]
) -> None:
    exported = export_model(find_source(str(checkpoint)), tmp_path, dtype=dtype, base=None)
    assert (exported.dtype, exported.quantization) == (dtype, "nf4")
    merged = load_policy(PolicyConfig(model=str(tmp_path), dtype=dtype))
    difference = (logprobs(merged) - logprobs(policy)).abs().max()
    assert difference < (1e-5 if dtype == "float32" else 0.1)


def test_a_damaged_record_of_the_base_is_one_line(checkpoint: Path, tmp_path: Path) -> None:
    for file in (checkpoint / "adapter").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / HELD).write_text('{"quantization": "nf9", "dtype": "float32"}')
    with pytest.raises(ConfigError, match=rf"{HELD} is not as vlrft writes it"):
        load_policy(PolicyConfig(adapter=str(tmp_path)))


def test_4_bit_weights_are_refused_where_they_cannot_work(
    lora_base: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="quantization nf4 is for weights of a `model`"):
        PolicyConfig(build=BuildConfig(), quantization="nf4")
    with pytest.raises(ConfigError, match=r"set policy\.lora"):
        check_quantization("single", PolicyConfig(model=str(lora_base), quantization="nf4"))
    adapter = PolicyConfig(adapter=str(checkpoint / "adapter"))
    for asked in (packed_config(lora_base), adapter):
        with pytest.raises(ConfigError, match="deepspeed does not train over 4-bit weights"):
            check_quantization({"name": "deepspeed", "stage": 3}, asked)
        check_quantization("single", asked)
    with pytest.raises(ConfigError, match="nf4 computes in float32 or bfloat16"):
        load_policy(packed_config(lora_base, dtype="float64"))
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(ConfigError, match=r"pip install 'vlrft\[quantization\]'"):
        load_policy(packed_config(lora_base))


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="Linux tells what is mapped")
def test_no_weight_keeps_the_files_mapped_that_hold_the_plain_numbers_of_the_packed_ones(
    lora_base: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(lora_base, tmp_path / "base")  # a file that no other policy maps
    packed = load_policy(packed_config(copy))
    assert str(copy) not in Path("/proc/self/maps").read_text()
    assert any(is_packed(parameter) for parameter in packed.model.parameters())


def test_the_files_of_a_model_in_shards_are_found_by_its_index(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_file({name: torch.zeros(1)}, tmp_path / f"{name}.safetensors")
    index = {"weight_map": {name: f"{name}.safetensors" for name in ("a", "b")}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    files = weight_files(str(tmp_path), None)
    assert files == {name: tmp_path / f"{name}.safetensors" for name in ("a", "b")}
    save_file(
        {"c": torch.zeros(1)}, tmp_path / "model.safetensors"
    )  # which is read before an index
    assert weight_files(str(tmp_path), None) == {"c": tmp_path / "model.safetensors"}
