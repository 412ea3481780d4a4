"""Models small enough to count by hand."""

from __future__ import annotations

from vlrft.memory.shapes import (
    DecoderShape,
    MicroBatchShape,
    ModelShape,
    PackedPrompt,
    PromptSize,
    VisionShape,
    WeightBytes,
)

DECODER = DecoderShape(hidden=8, layers=3, heads=2, kv_heads=1, head_dim=4, inner=16, vocab=100)
TOWER = VisionShape(
    width=4, layers=2, heads=2, inner=8, gated=False, activated=2, values=10, projected=16
)
WEIGHTS = WeightBytes(total=1000, trained=1000, embedding=400, tower=100, base=1000)
MODEL = ModelShape(decoder=DECODER, tower=TOWER, weights=WEIGHTS)
# 5 tokens of prompt and two completions of 3, whose last tokens are never fed: 9 positions, 6 scored.
MICRO = MicroBatchShape([PackedPrompt(prompt=PromptSize(tokens=5, patches=8), rows=(3, 3))])
