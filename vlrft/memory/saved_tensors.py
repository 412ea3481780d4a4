"""Bytes that autograd saves in a forward pass for the backward pass.

H hidden, A query heads x width, K key heads x width, h heads, d width of a head, I inner width, W width of the vision
tower, r rank of adapters; s bytes of an element, w of one in float32 at least; T positions, L of them in each of R rows,
P patches, N scored tokens. Each formula was compared with what `torch.autograd.graph.saved_tensors_hooks` counts.
"""

from __future__ import annotations

from vlrft.memory import recurrent
from vlrft.memory.shapes import (
    AdapterShape,
    DecoderShape,
    MicroBatchShape,
    ModelShape,
    RecurrentShape,
    VisionShape,
)


def decoder_layer(model: ModelShape, micro: MicroBatchShape) -> int:
    """One layer: T [2Hw + 2As + 2K's + 3Is + hw]; with trained weights also T [4Hs + Is]. Each norm after attention or MLP:
    T Hw, and T Hs; norms of queries and keys: T (A + K) w, and T (A + K) s.

    2Hw: the norms' inputs, in float32. 2As: queries and the attention output (also the next module's input). 2K's: keys
    and values, where they are repeated for each query head K' = A, else K. 3Is: gate, its activation, up.
    hw: log-sum-exp of the attention scores. Trained weights: each norm's output before and after its scale, and the down
    projection's input.
    """
    d, s, w = model.decoder, model.element, model.wide
    repeated = d.query if d.repeats_keys else d.kv
    each = 2 * d.hidden * w + (2 * d.query + 2 * repeated + 3 * d.inner) * s
    if d.attention != "eager":
        each += d.heads * w
    normed = d.later_norms * d.hidden + (d.query + d.kv if d.head_norms else 0)
    each += normed * w
    if d.gated:  # the gate's sigmoid, and the queries' share of a product that is kept
        each += 2 * d.query * s
    if d.gradient == "all":
        each += (4 * d.hidden + d.inner + normed + (d.query if d.gated else 0)) * s
    return micro.positions * (each + adapters(d.adapters, s)) + attention(d, micro, s)


def recurrent_layer(model: ModelShape, shape: RecurrentShape, micro: MicroBatchShape) -> int:
    """One layer without attention: T [2Hw + 3Is], with trained weights T [H (2w + s) + Is] more, and what mixes its tokens."""
    d, s, w = model.decoder, model.element, model.wide
    each = 2 * d.hidden * w + 3 * d.inner * s
    if d.gradient == "all":
        each += d.hidden * (2 * w + s) + d.inner * s
    mixed = recurrent.mixers(model, shape, micro)
    mixed += recurrent.positions(micro) * adapters(shape.adapters, s)
    return micro.positions * (each + adapters(shape.mlp_adapters, s)) + mixed


def largest_layer(model: ModelShape, micro: MicroBatchShape) -> int:
    """The layer of the decoder that saves most."""
    shape = model.decoder.recurrent
    other = 0 if shape is None else recurrent_layer(model, shape, micro)
    return max(decoder_layer(model, micro), other)


def attention(decoder: DecoderShape, micro: MicroBatchShape, s: int) -> int:
    """Eager attention: its weights, R h L² w, and their copy in the model's dtype. All others: nothing."""
    if decoder.attention == "eager":
        return micro.square * decoder.heads * (s if s >= 4 else 4 + s)
    return 0


def adapters(shape: AdapterShape, s: int) -> int:
    """For each token of a layer: r elements of each adapted module, and the modules' inputs, of which every module has its
    own copy where adapters have another dtype than the model."""
    low_rank = len(shape.inputs) * shape.rank * shape.element
    if s == shape.element:
        return low_rank + shape.distinct * s
    return low_rank + sum(shape.inputs) * shape.element


def decoder_ends(model: ModelShape, micro: MicroBatchShape) -> int:
    """Outside of the layers: the last norm, T Hw, with trained weights T Hs more; rotary cosines and sines, 2 T d s; the
    scored hidden states, N H s."""
    d, s = model.decoder, model.element
    trained = d.hidden * s if d.gradient == "all" else 0
    ends = micro.positions * (d.hidden * model.wide + trained + 2 * d.head_dim * s)
    return ends + micro.scored * d.hidden * s


def decoder(model: ModelShape, micro: MicroBatchShape) -> int:
    """The decoder: all layers and both ends. Under checkpointing a layer saves its input alone, T H s."""
    d = model.decoder
    if d.gradient == "none":
        return 0
    ends = decoder_ends(model, micro)
    if model.checkpointing:
        return d.layers * micro.positions * d.hidden * model.element + ends
    layers = d.attending * decoder_layer(model, micro)
    if d.recurrent is not None:
        layers += d.recurrent.layers * recurrent_layer(model, d.recurrent, micro)
    return layers + ends


def tower_layer(model: ModelShape, tower: VisionShape, patches: int, squares: int = 0) -> int:
    """One vision layer: P s [2W + 6W + mI] and hw for the log-sum-exp; with trained weights P s [2W + I], gated 2W more.

    2W: the norms' inputs (RMS norms: in float32). 6W: queries, keys, the 3W that contain the values, the attention output.
    mI: what the MLP's activation saves. Trained weights: the inputs of the linear modules, of which the
    attention output is saved already. Eager attention: its weights instead of the log-sum-exp, `squares` (the sum of the
    squared lengths attended over) x heads, and the output once more, as it is joined from those of the images.
    """
    s, w = model.element, model.wide
    norm = w if tower.gated else s  # an RMS norm computes in float32, a layer norm saves its input
    mlp = tower.activated * tower.inner
    each = 2 * tower.width * norm + 6 * tower.width * s + mlp * s
    if tower.attention == "sdpa":
        each += tower.heads * w
    if tower.gradient == "all":
        inputs = 2 if tower.attention == "sdpa" else 3
        each += (inputs * tower.width + tower.inner + (2 * tower.width if tower.gated else 0)) * s
    weights = squares * tower.heads * (s if s >= 4 else 4 + s) if tower.attention == "eager" else 0
    return patches * (each + adapters(tower.adapters, s)) + weights


def merger(model: ModelShape, tower: VisionShape, patches: int) -> int:
    """The projector: P s and P w times the elements that the family counts."""
    return patches * (tower.projected * model.element + tower.normed * model.wide)


def tower(model: ModelShape, micro: MicroBatchShape) -> int:
    """The vision model: pixels where patch embeddings are trained, layers (under checkpointing the input of each), rotary
    cosines and sines in float32, projector."""
    t = model.tower
    if t is None or not micro.patches:
        return 0
    saved = 0
    if t.gradient != "none":
        layer = tower_layer(model, t, micro.patches, squares(micro))
        if model.checkpointing:
            layer = micro.patches * t.width * model.element
        pixels = micro.patches * t.values * model.element if t.gradient == "all" else 0
        rotary = 2 * micro.patches * t.width // t.heads * 4
        saved += t.layers * layer + pixels + rotary
    if t.gradient != "none" or t.projector:
        saved += merger(model, t, micro.patches)
    return saved


def squares(micro: MicroBatchShape) -> int:
    """Σ p² over the prompts' patches p: the tower attends within an image."""
    return sum(item.prompt.patches**2 for item in micro.items)
