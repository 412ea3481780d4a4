"""The processor of a multimodal model that TRL needs."""

from __future__ import annotations

from typing import Any


def processor(images: Any, tokenizer: Any) -> Any:
    """A processor of an image processor and a tokenizer, without the video part, which needs torchvision."""
    from transformers import ProcessorMixin, Qwen2VLProcessor

    class Images(Qwen2VLProcessor):  # type: ignore[misc]
        def __init__(self, image_processor: Any, tokenizer: Any, chat_template: Any) -> None:
            for kind in ("image", "video"):
                token = f"<|{kind}_pad|>"
                setattr(self, f"{kind}_token", token)
                setattr(self, f"{kind}_token_id", tokenizer.convert_tokens_to_ids(token))
            ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    return Images(images, tokenizer, tokenizer.chat_template)
