"""Recurrent layers fork at the end of a prompt: exact, without leaks, counted once, and refused where they cannot."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.conftest import Tiny
from vlrft.config import PolicyConfig
from vlrft.memory.recurrent import state_bytes
from vlrft.policy.forked import mixer
from vlrft.policy.forked.mixer import ForkedMixer, Forks, install_forks
from vlrft.policy.forked.states import LayerStates
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs, self_check
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Limits, Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.prefill import prefill
from vlrft.rollout.engines.vllm.served_policy import check_policy
from vlrft.rollout.engines.vllm.settings import Settings
from vlrft.schema import IMAGE, Prompt
from vlrft.schema.errors import ConfigError, SelfCheckError
from vlrft.testing.packed_equality import assert_packed_equals_replicated
from vlrft.testing.small_policies import CORPUS, ask, noise_image, tiny_config
from vlrft.trainer.memory_plan.model_shapes import policy_shape

PROMPT = Prompt(ids=tuple(range(20, 60)))


@pytest.fixture(scope="module")
def trained(tiny: Tiny) -> Policy:
    """A policy whose states carry something: it has learned to repeat a text from memory. Those of random weights fade within
    some tokens, and hide what leaks."""
    policy = tiny("qwen3_5")
    policy = Policy(copy.deepcopy(policy.model), policy.chat)
    model, optimiser = policy.model, torch.optim.Adam(policy.model.parameters(), lr=5e-3)
    draw = torch.Generator().manual_seed(0)
    for _ in range(40):
        half = torch.randint(20, 60, (8, 10), generator=draw)
        ids = torch.cat([half, half], 1)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return policy


def rows_of(policy: Policy) -> PackItem:
    rows = (tuple(range(20, 40)), (30,) * 12, (41,), tuple(range(59, 49, -1)))
    return PackItem(prompt=PROMPT, rows=rows)


def mask_of(items: list[PackItem]) -> Tensor:
    rows = [row for item in items for row in item.rows]
    width = max(map(len, rows))
    return torch.tensor([[t < len(row) for t in range(width)] for row in rows])


def score(policy: Policy, *items: PackItem) -> Tensor:
    with torch.no_grad():
        mask = mask_of(list(items))
        return packed_logprobs(policy, items, mask=mask, temperature=1.0).logprobs


def without_forks(
    self: Forks, run: Any, hidden: Tensor, *, fork: bool
) -> tuple[Tensor, LayerStates]:
    """Packed rows as attention takes them, one completion after another."""
    self.calls += 1
    states = LayerStates()
    output: Tensor = run(hidden, states, None)
    return output, states


def test_changing_a_row_leaves_the_others_bit_for_bit(
    trained: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = rows_of(trained)
    other = PackItem(prompt=PROMPT, rows=((25,) * 20, *item.rows[1:]))
    before, after = score(trained, item), score(trained, other)
    assert not torch.equal(before[0], after[0])
    assert torch.equal(before[1:], after[1:])
    monkeypatch.setattr(Forks, "run", without_forks)
    before, after = score(trained, item), score(trained, other)
    assert float((before - after)[1:].abs().max()) > 1e-2  # this test sees a leak


def test_the_self_check_refuses_rows_that_read_each_other(
    trained: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [rows_of(trained)]
    assert self_check(trained, items, mask=mask_of(items), temperature=1.0) <= 1e-4
    monkeypatch.setattr(Forks, "run", without_forks)
    with pytest.raises(SelfCheckError, match="packed and replicated log-probs differ by"):
        self_check(trained, items, mask=mask_of(items), temperature=1.0)


@pytest.mark.parametrize("broken", [False, True])
def test_gradients_flow_from_completions_into_their_prompt(
    trained: Policy, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    """In prompts of different lengths, one shorter than the convolution; without that flow the comparison fails."""
    model = copy.deepcopy(trained.model).double()
    model.model.visual.requires_grad_(False)
    policy = Policy(model, trained.chat)
    short = PackItem(prompt=Prompt(ids=(21, 33)), rows=((45, 46, 47), (48, 49)))
    items = [rows_of(policy), short]
    if not broken:
        assert_packed_equals_replicated(policy, items, mask_of(items))
        return
    select = LayerStates.select

    def cut(states: LayerStates, index: Tensor) -> LayerStates:
        forked = select(states, index)
        forked.recurrent = {k: state.detach() for k, state in forked.recurrent.items()}
        return forked

    monkeypatch.setattr(LayerStates, "select", cut)
    with pytest.raises(AssertionError, match="norm"):  # of a gradient
        assert_packed_equals_replicated(policy, items, mask_of(items))


def test_a_prompt_is_run_once(trained: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """P + ΣC positions, the last token of each completion left out; in recurrent layers completions are padded."""
    positions: list[int] = []
    call = trained.backbone.call_decoder

    def call_decoder(embeds: Tensor, *arguments: Any, **options: Any) -> Tensor:
        positions.append(embeds.shape[:2].numel())
        return call(embeds, *arguments, **options)

    mixed: list[tuple[int, ...]] = []
    (layer,) = [m for m in trained.model.modules() if isinstance(m, ForkedMixer)]
    kind: Any = type(layer).__mro__[2]
    forward = kind.forward

    def spy(self: Any, hidden: Tensor, **options: Any) -> Tensor:
        mixed.append(tuple(hidden.shape[:2]))
        output: Tensor = forward(self, hidden, **options)
        return output

    monkeypatch.setattr(trained.backbone, "call_decoder", call_decoder)
    monkeypatch.setattr(kind, "forward", spy)
    score(trained, rows_of(trained))
    assert positions == [40 + 19 + 11 + 0 + 9]
    assert mixed == [(1, 40), (3, 19)]
    mixed.clear()
    score(trained, PackItem(prompt=PROMPT, rows=((5,), (6,))))
    assert mixed == [(1, 40), (1, 2)]  # ranks call equally many modules, whatever their rows


def test_rows_that_enter_and_leave_have_the_states_of_their_own_prompts(trained: Policy) -> None:
    """Tokens are those that are sampled all at once, with pictures as well."""
    chat = trained.chat
    prompts = [
        PROMPT,
        chat.render(ask(IMAGE, "Which?"), [noise_image(64, 96)]),
        Prompt(ids=tuple(range(30, 50)) * 2),
    ]
    requests = [
        Request(id=str(k), prompt=prompt, seeds=(3 * k, 3 * k + 1, 3 * k + 2))
        for k, prompt in enumerate(prompts)
    ]
    engine = HfEngine(trained)
    sampling = Sampling(max_tokens=20, temperature=1.3)
    together = engine.generate(requests, sampling)
    few = Sampling(max_tokens=20, temperature=1.3, limits=Limits(max_rows=4))
    apart = engine.generate(requests, few)
    assert [[p.ids for p in pieces] for pieces in apart] == [
        [p.ids for p in pieces] for pieces in together
    ]
    items = [
        PackItem(prompt=r.prompt, rows=tuple(p.ids for p in pieces))
        for r, pieces in zip(requests, apart, strict=True)
    ]
    mask = mask_of(items)
    with torch.no_grad():
        scored = packed_logprobs(trained, items, mask=mask, temperature=1.3).logprobs
    sampled = torch.tensor([x for pieces in apart for p in pieces for x in p.logprobs])
    assert float((scored[mask] - sampled).abs().max()) <= 1e-4


def test_the_plan_counts_the_bytes_of_states(trained: Policy) -> None:
    request = Request(id="a", prompt=PROMPT, seeds=(0,))
    with torch.no_grad():
        states = prefill(trained.backbone, [request], pad_id=0).prompts.states
    held = sum(
        state.nbytes for s in states.values() for state in (*s.conv.values(), *s.recurrent.values())
    )
    assert held == state_bytes(policy_shape(trained)) > 0


def test_a_copy_of_the_model_forks_as_well(trained: Policy) -> None:
    reference = trained.reference()
    assert torch.equal(score(reference, rows_of(trained)), score(trained, rows_of(trained)))
    count = sum(isinstance(m, ForkedMixer) for m in reference.model.modules())
    assert count == install_forks(reference.backbone.decoder) == 1


def save_text_model(tiny: Tiny, folder: Path, name: str, **settings: Any) -> None:
    """A text-only model without a family."""
    import transformers

    sizes = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "vocab_size": 320,
        "num_hidden_layers": 2,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 2,
        "initializer_range": 0.1,
    }
    sizes = {key: value for key, value in (sizes | settings).items() if value is not None}
    config = getattr(transformers, f"{name}Config")(**sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config.architectures = None
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tiny("qwen2").chat.save(folder)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("Qwen3_5Text", {}),
        ("OlmoHybrid", {"pad_token_id": 0}),
        ("Qwen3Next", {"num_experts": 0, "mlp_only_layers": [0, 1]}),
    ],
)
def test_layer_types_decide_and_no_family(
    tiny: Tiny, tmp_path: Path, name: str, settings: dict[str, Any]
) -> None:
    save_text_model(tiny, tmp_path, name, **settings)
    policy = load_policy(PolicyConfig(model=str(tmp_path)))
    assert policy.backbone.recurrent_layers == 1
    assert not policy.backbone.multimodal
    items = [rows_of(policy)]
    assert 0 < self_check(policy, items, mask=mask_of(items), temperature=1.0) <= 1e-5


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("Qwen3Next", {"num_experts": 4, "moe_intermediate_size": 8}, "routes tokens to experts"),
        (
            "Bamba",
            {
                "layer_types": None,
                "linear_num_value_heads": None,
                "attn_layer_indices": [1],
                "mamba_n_heads": 4,
                "mamba_d_head": 16,
            },
            "vlrft cannot fork their states",
        ),
    ],
)
def test_other_hybrids_are_refused_with_the_reason(
    tiny: Tiny, tmp_path: Path, name: str, settings: dict[str, Any], reason: str
) -> None:
    save_text_model(tiny, tmp_path, name, **settings)
    with pytest.raises(ConfigError, match=reason):
        load_policy(PolicyConfig(model=str(tmp_path)))


def test_a_decoder_that_hands_nothing_on_is_refused(
    trained: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = trained.backbone.call_decoder

    def call_decoder(embeds: Tensor, positions: Tensor, forks: Forks, **options: Any) -> Tensor:
        return call(embeds, positions, **options)

    monkeypatch.setattr(trained.backbone, "call_decoder", call_decoder)
    with pytest.raises(ConfigError, match="to 0 of its 1 recurrent layers, so completions would"):
        score(trained, rows_of(trained))


def test_a_release_of_transformers_that_cannot_go_on_from_a_state_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mixer, "continues_states", lambda: False)
    with pytest.raises(ConfigError, match="cannot continue the states of recurrent layers"):
        load_policy(tiny_config("qwen3_5"), corpus=CORPUS).backbone  # noqa: B018


def test_vllm_is_refused(trained: Policy) -> None:
    with pytest.raises(ConfigError, match=r"has recurrent layers.*use rollout\.engine=hf"):
        check_policy(Settings(), trained, 1)
