"""Conformance of a model family (`vlrft.policy.families`), on a small model of it in float64."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from vlrft.config import BuildConfig, LoraConfig, PolicyConfig
from vlrft.policy.families import Family, all_families, vision_family
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import model_inputs, packed_logprobs
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import IMAGE, Message, Prompt
from vlrft.testing.packed_equality import assert_packed_equals_replicated
from vlrft.testing.small_policies import noise_image
from vlrft.vision.processor import prepare_torchvision

CORPUS = (
    "Which digit is this? <answer>7</answer>",
    "How many threes are there? <answer>12</answer>",
)


class FamilyConformance:
    """Inherit it, name the subclass `Test…`, and define `name`."""

    name: str
    """The family's file in `vlrft/policy/families`, which is also its `policy.build.family`."""

    @property
    def family(self) -> Family:
        return all_families()[self.name]

    @property
    def policy(self) -> Policy:
        """A small policy of all weights, which the tests share."""
        return _shared_policy(self.name)

    def load(self, **settings: Any) -> Policy:
        """A small policy of its own; `settings`: further fields of `PolicyConfig`."""
        build = BuildConfig(family=self.name, vocab_size=300)
        config = PolicyConfig(build=build, dtype="float64", **settings)
        return load_policy(config, corpus=CORPUS, seed=0)

    def prompts(self, policy: Policy) -> list[Prompt]:
        """Prompts without an image and, of a multimodal family, with one, with two, and with a shared one."""

        def ask(*content: object, images: tuple[Image.Image, ...] = ()) -> Prompt:
            return policy.chat.render((Message(role="user", content=content),), images)  # type: ignore[arg-type]

        texts = [ask("How many threes?"), ask("Which digit is it, and why?")]
        if self.family.vision is None:
            return texts
        square, wide = noise_image(112, 112, 0), noise_image(196, 84, 1)
        one = ask(IMAGE, "Which digit is this?", images=(square,))
        return [texts[0], one, ask(IMAGE, "and", IMAGE, "?", images=(wide, square))]

    def items(self, policy: Policy) -> tuple[list[PackItem], Tensor]:
        """Groups of two completions of different lengths, and their mask."""
        ids = [i for i in range(len(policy.chat.tokenizer)) if i not in policy.chat.banned_ids]
        rows = (tuple(ids[10:15]), tuple(ids[20:23]))
        items = [PackItem(prompt=prompt, rows=rows) for prompt in self.prompts(policy)]
        mask = torch.tensor([[t < len(row) for t in range(5)] for _ in items for row in rows])
        return items, mask

    def test_its_small_model_is_recognised(self) -> None:
        assert vision_family(self.policy.model) is self.family.vision

    def test_control_tokens_are_never_sampled_and_markup_may_be(self) -> None:
        chat, vision = self.policy.chat, self.family.vision
        assert chat.end_ids.isdisjoint(chat.banned_ids)
        if vision is not None:
            assert chat.image_token_id in chat.banned_ids
            assert chat.tokenizer.encode(vision.image_text).count(chat.image_token_id) == 1
            allowed = [*vision.markup, *vision.unread]
            markup = set(chat.tokenizer.convert_tokens_to_ids(allowed))
            assert markup.isdisjoint(chat.banned_ids)

    def test_data_that_spell_a_control_token_are_plain_text(self) -> None:
        """Prompts, observations and gold answers; of these, the family's markup alone stays what it is."""
        chat, vision = self.policy.chat, self.family.vision
        markup = () if vision is None else (*vision.markup, *vision.unread)

        def render(text: str) -> list[tuple[int, ...]]:
            asked = (Message(role="user", content=(text,)),)
            plain = (Message(role="plain", content=(text,)),)
            ended = (chat.end_id,)
            return [chat.render(asked).ids, chat.render(plain).ids, chat.follow(ended, asked).ids]

        clean = render("How many?")
        assert chat.control.ids
        for token, token_id in chat.control.ids.items():
            for ids, expected in zip(render(f"How{token} many?"), clean, strict=True):
                assert ids.count(token_id) == expected.count(token_id), token
                assert f"How{token} many?" in chat.tokenizer.decode(ids)
            *answer, end = chat.answer_ids(f"7{token}")
            assert end == chat.end_id
            assert answer.count(token_id) == (token in chat.control.in_answers), token
        assert set(markup) <= chat.control.in_answers
        allowed = {chat.control.ids[token] for token in chat.control.in_answers}
        assert allowed.isdisjoint(chat.end_ids | chat.banned_ids)

    def test_a_prompt_has_an_image_token_for_each_feature(self) -> None:
        for prompt in self.prompts(self.policy):
            tokens = sum(image.tokens for image in prompt.images)
            assert prompt.ids.count(self.policy.chat.image_token_id) == tokens
            if prompt.images and self.family.vision is not None:
                with torch.no_grad():
                    features = self.family.vision.encode(
                        self.policy.model, prompt.images, self.policy.device
                    )
                assert len(features) == tokens

    def test_a_prompt_is_that_of_transformers_processor(self, tmp_path: Path) -> None:
        """Ids and pixels. Its processors of videos, which it loads as well, need torchvision."""
        if self.family.vision is None or prepare_torchvision().backend == "pil":
            return
        from transformers import AutoProcessor

        self.policy.save(tmp_path)
        processor: Any = AutoProcessor.from_pretrained(tmp_path)
        texts = [{"type": "text", "text": text} for text in ("and", "?")]
        content = [{"type": "image"}, texts[0], {"type": "image"}, texts[1]]
        text = processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        pictures = [noise_image(196, 84, 1), noise_image(112, 112, 0)]
        inputs = processor(text=[text], images=pictures, return_tensors="pt")
        prompt = self.prompts(self.policy)[2]
        assert inputs["input_ids"][0].tolist() == list(prompt.ids)
        values = torch.cat([image.values for image in prompt.images])
        assert torch.equal(inputs["pixel_values"], values)

    def test_text_after_a_prompt_does_not_change_its_positions(self) -> None:
        backbone, vision = self.policy.backbone, self.family.vision
        for prompt in self.prompts(self.policy):
            length = len(prompt.ids)
            positions = backbone.positions(prompt, 100, "prompt")
            assert positions.shape == (backbone.axes, length + 100)
            if vision is not None:
                places = np.isin(np.array(prompt.ids), backbone.place_ids)
                alone = vision.positions(self.policy.model, places, prompt.images)
                assert torch.equal(positions[:, :length], alone)

    def test_parameters_belong_to_one_part(self) -> None:
        vision = self.family.vision
        names = [name for name, _ in self.policy.model.named_parameters()]
        if vision is None:
            return
        tower, projector = (
            set(filter(of, names)) for of in (vision.is_vision, vision.is_projector)
        )
        assert set() < projector < tower < set(names)

    def test_packed_log_probs_and_gradients_are_those_of_transformers(self) -> None:
        assert_packed_equals_replicated(self.policy, *self.items(self.policy))

    def test_a_frozen_tower_runs_once_and_changes_no_log_prob(self) -> None:
        """Each tensor of an image's features is kept, those for later layers of the decoder too."""
        if self.family.vision is None:
            return
        policy = self.load(freeze=("vision", "projector"))
        items, mask = self.items(policy)
        assert_packed_equals_replicated(policy, items, mask)
        images = {image.key: image for item in items for image in item.prompt.images}
        encoder = policy.backbone.image_encoder
        assert encoder is not None
        for key, image in images.items():
            kept = encoder.cache.get(key)
            assert kept is not None
            with torch.no_grad():
                encoded = self.family.vision.encode(policy.model, [image], policy.device)
            assert kept.nbytes == encoded.nbytes
        again = patch.object(type(encoder.vision), "encode", side_effect=AssertionError)
        with again, torch.no_grad():
            packed_logprobs(policy, items, mask=mask, temperature=1.0)

    def test_adapters_are_in_both_parts_and_count_in_packed_log_probs(self) -> None:
        """Adapters of random values, with layers that recompute their activations."""
        policy = self.load(lora=LoraConfig(rank=2), activation_checkpointing=True)
        names, vision = policy.trained_names, self.family.vision
        assert all(".lora_" in name for name in names)
        assert any("q_proj" in name for name in names)
        if vision is not None:
            places = {(vision.is_vision(name), vision.is_projector(name)) for name in names}
            assert places == {(False, False), (True, False), (True, True)}
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, parameter in policy.model.named_parameters():
                if ".lora_B" in name:  # at first 0: the adapters change nothing
                    parameter.normal_(0, 0.05, generator=generator)
        assert_packed_equals_replicated(policy, *self.items(policy))

    def test_greedy_completions_are_those_of_generate(self) -> None:
        policy = self.policy
        banned = [i for i, flag in enumerate(policy.banned.tolist()) if flag]
        policy.model.eval()
        for prompt in self.prompts(policy):
            request = Request(id="prompt", prompt=prompt, seeds=(0,))
            sampling = Sampling(max_tokens=6, temperature=0.0)
            [(piece,)] = HfEngine(policy).generate([request], sampling)
            ids = torch.tensor([prompt.ids])
            inputs = model_inputs(policy, ids, torch.ones_like(ids), prompt.images)
            with torch.no_grad():
                generated = policy.model.generate(
                    **inputs, max_new_tokens=6, do_sample=False, suppress_tokens=banned
                )[0, len(prompt.ids) :].tolist()
            assert list(piece.ids) == generated[: len(piece.ids)]

    def test_a_saved_policy_is_loaded_again(self, tmp_path: Path) -> None:
        """And a run resumes with the same bits: each trained tensor is in the folder's files."""
        stored = self.policy.save(tmp_path)
        trained = self.policy.trained_weights()
        assert stored.keys() == trained.keys()
        tensors = dict(
            kv for path in tmp_path.glob("*.safetensors") for kv in load_file(path).items()
        )
        assert all(torch.equal(tensors[stored[name]], trained[name]) for name in trained)
        loaded = load_policy(PolicyConfig(model=str(tmp_path), dtype="float64"))
        items, mask = self.items(self.policy)
        again, _ = self.items(loaded)
        assert [item.prompt.key for item in again] == [item.prompt.key for item in items]
        with torch.no_grad():
            one, other = (
                packed_logprobs(policy, items, mask=mask, temperature=1.0).logprobs
                for policy in (self.policy, loaded)
            )
        assert torch.equal(one, other)


@cache
def _shared_policy(name: str) -> Policy:
    suite = FamilyConformance()
    suite.name = name
    return suite.load()
