"""What autograd keeps of a forward pass for the backward one. H hidden, A query heads x width, K key heads x width,
I inner width, W width of the tower; s bytes of an element, w of one in float32 at least; T positions, P patches.

Each was compared with what `torch.autograd.graph.saved_tensors_hooks` sees.
"""

from __future__ import annotations

from vlrft.memory.shapes import (
    AdapterShape,
    DecoderShape,
    MicroBatch,
    ModelShape,
    PromptSize,
    VisionShape,
)


def decoder_layer(model: ModelShape, micro: MicroBatch) -> int:
    """One layer: T [2Hw + 2As + 2K's + 3Is + hw] + a mask, and with trained weights T [4Hs + Is] besides.

    Hw: each norm's input, in float32. As: queries, attention's output (also the next module's input). K's: keys and
    values, repeated to A for each query head where there is a mask. 3I: gate, its activation, up. hw: log-sum-exp.
    Trained weights: each norm's result before and behind its scale, the down projection's input.
    """
    d, s, w = model.decoder, model.element, model.wide
    repeated = d.kv if d.attention == "flex_attention" else d.query
    each = 2 * d.hidden * w + (2 * d.query + 2 * repeated + 3 * d.inner) * s
    if d.attention != "eager":
        each += d.heads * w
    if d.gradient == "all":
        each += (4 * d.hidden + d.inner) * s
    return micro.positions * (each + adapters(d.adapters, s)) + attention(d, micro, s)


def attention(decoder: DecoderShape, micro: MicroBatch, s: int) -> int:
    """sdpa: the mask as numbers, R L² s, a copy for each layer. eager: the shares of attention, R h L² w, and their
    copy in the model's dtype. flex_attention: nothing."""
    if decoder.attention == "sdpa":
        return micro.square * s
    if decoder.attention == "eager":
        return micro.square * decoder.heads * (s if s >= 4 else 4 + s)
    return 0


def adapters(kept: AdapterShape, s: int) -> int:
    """A token of a layer: the adapted modules' inputs, each cast anew where adapters are of another dtype, and r
    elements of each."""
    low = len(kept.inputs) * kept.rank * kept.element
    return low + (kept.distinct * s if s == kept.element else sum(kept.inputs) * kept.element)


def decoder_ends(model: ModelShape, micro: MicroBatch) -> int:
    """The last norm, T (Hw + Hs), rotary cosines and sines, 2 T d s, the scored states, N H s; with trained weights."""
    d, s = model.decoder, model.element
    trained = d.hidden * s if d.gradient == "all" else 0
    ends = micro.positions * (d.hidden * model.wide + trained + 2 * d.head_dim * s)
    return ends + micro.scored * d.hidden * s


def decoder(model: ModelShape, micro: MicroBatch) -> int:
    """All of it: every layer whole, or under checkpointing its input alone, T H s."""
    d = model.decoder
    if d.gradient == "none":
        return 0
    layer = decoder_layer(model, micro)
    if model.checkpointing:
        layer = micro.positions * d.hidden * model.element
    return d.layers * layer + decoder_ends(model, micro)


def tower_layer(model: ModelShape, tower: VisionShape, patches: int, squares: int = 0) -> int:
    """One layer: P s [2W + 6W + mI + h w/s], with trained weights P s [3W + I], gated ones 2W and I more.

    2W: the norms' inputs. 6W: queries, keys, the 3W of which the values are a part, attention's output. mI: what the
    MLP's activation keeps. Trained weights: the inputs of the linear modules.
    eager: the shares of attention besides, `squares` (the sum of the squared lengths that are attended over) x heads.
    """
    s, w = model.element, model.wide
    norm = w if tower.gated else s  # an RMS norm computes in float32, a layer norm keeps its input
    each = (
        2 * tower.width * norm + 6 * tower.width * s + (3 if tower.gated else 2) * tower.inner * s
    )
    if tower.attention == "sdpa":
        each += tower.heads * w
    if tower.gradient == "all":
        each += (3 * tower.width + tower.inner + (2 * tower.width if tower.gated else 0)) * s
    shares = squares * tower.heads * (s if s >= 4 else 4 + s) if tower.attention == "eager" else 0
    return patches * (each + adapters(tower.adapters, s)) + shares


def merger(model: ModelShape, tower: VisionShape, patches: int) -> int:
    """The projector: P s [W + 3W], an RMS norm W more: the norm's input, the inputs of two linear modules and of the
    activation between them."""
    widths = 5 if tower.gated else 4
    return patches * widths * tower.width * model.element


def tower(model: ModelShape, micro: MicroBatch) -> int:
    """All of the tower: pixels for trained patches, layers (under checkpointing the input of each), projector."""
    t = model.tower
    if t is None or not micro.patches:
        return 0
    kept = 0
    if t.gradient != "none":
        layer = tower_layer(model, t, micro.patches, squares(micro))
        if model.checkpointing:
            layer = micro.patches * t.width * model.element
        pixels = micro.patches * t.values * model.element if t.gradient == "all" else 0
        kept += t.layers * layer + pixels
        kept += 2 * micro.patches * t.width // t.heads * 4  # rotary cosines and sines
    if t.gradient != "none" or t.projector:
        kept += merger(model, t, micro.patches)
    return kept


def squares(micro: MicroBatch) -> int:
    """Σ p² over the prompts: attention of a tower is within an image."""
    return sum(_square(item.prompt) for item in micro.items)


def _square(prompt: PromptSize) -> int:
    return prompt.patches**2
