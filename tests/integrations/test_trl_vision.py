"""Images reach the log-probs through TRL: the gradient of the vision model does not depend on the micro-batch either."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from vlrft.policy.load import load_policy
from vlrft.testing.small_policies import CORPUS, noise_image, tiny_config

pytest.importorskip("trl")
pytestmark = pytest.mark.filterwarnings("default")  # other packages warn

SPECIAL = ("image_pad", "video_pad", "vision_start", "vision_end")


def processor(policy: Any) -> Any:
    """A processor without the video part, which needs torchvision."""
    from transformers import ProcessorMixin, Qwen2VLProcessor

    tokenizer = policy.chat.tokenizer

    class Images(Qwen2VLProcessor):  # type: ignore[misc]
        def __init__(self, image_processor: Any, tokenizer: Any, chat_template: Any) -> None:
            for kind in ("image", "video"):
                setattr(self, f"{kind}_token", f"<|{kind}_pad|>")
                number = tokenizer.convert_tokens_to_ids(f"<|{kind}_pad|>")
                setattr(self, f"{kind}_token_id", number)
            ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    return Images(policy.chat.image_processor, tokenizer, tokenizer.chat_template)


def parity(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    return [float(sum(ids) % 2) for ids in completion_ids]


def gradient(out: Path, accumulate: int) -> dict[str, Tensor]:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig

    from vlrft.integrations.trl import VlrftGRPOTrainer

    gradients: dict[str, Tensor] = {}

    class Keep(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *_: Any, model: Any, **__: Any) -> None:
            gradients.update({n: p.grad.clone() for n, p in model.named_parameters()})

    policy = load_policy(tiny_config("qwen2_vl"), corpus=CORPUS, seed=0)
    banned = [policy.chat.tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in SPECIAL]
    asked = [{"role": "user", "content": "What colour?"}]
    images = [noise_image(56, 56 + 28 * i, i) for i in range(2)]
    VlrftGRPOTrainer(
        algorithm="gmpo",
        model=policy.model,
        reward_funcs=parity,
        args=GRPOConfig(
            output_dir=str(out),
            per_device_train_batch_size=8 // accumulate,
            gradient_accumulation_steps=accumulate,
            num_generations=4,
            max_completion_length=6,
            max_steps=1,
            max_grad_norm=0.0,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
            gradient_checkpointing=False,
            generation_kwargs={"suppress_tokens": banned},
            seed=1,
        ),
        train_dataset=Dataset.from_list([{"prompt": asked, "image": image} for image in images]),
        processing_class=processor(policy),
        callbacks=[Keep()],
    ).train()
    return gradients


def test_accumulation_changes_nothing_for_a_vision_language_model(tmp_path: Path) -> None:
    whole, parts = gradient(tmp_path, 1), gradient(tmp_path, 2)
    assert max(float(g.abs().max()) for n, g in whole.items() if "visual" in n) > 1e-3
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=1e-4, atol=1e-6)
