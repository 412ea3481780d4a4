"""Bytes that a pass allocates and frees again: the widest point of a layer, and chunks of logits.

H hidden, A query heads x width, K key heads x width, I inner width, V vocabulary, W width of the vision model; s bytes of
an element, w of one in float32 at least; T positions, P patches, N scored tokens.
"""

from __future__ import annotations

from vlrft.memory import recurrent
from vlrft.memory.limits import chunk_rows
from vlrft.memory.shapes import MicroBatchShape, ModelShape


def decoder_forward(
    model: ModelShape, positions: int, square: int = 0, chunked: int | None = None
) -> int:
    """The widest point of a layer without gradients: T s max(4H + 3I, 4H + 4A + 4K).

    MLP: embeddings, layer input, residual and norm output (4H); gate, up and their product (3I). Attention: the same 4H;
    queries, keys and values, all three once more in the order of the kernel's calls, and the output twice. `square`: the
    entries of a mask, where there is one; then 2A instead of 2K, as keys and values are repeated, and its numbers,
    `square` s. Eager attention: also scores, masked scores and attention weights for each head. Recurrent layers: `chunked`
    positions of whole chunks; None: those of one row.
    """
    d, s = model.decoder, model.element
    mlp = positions * s * (4 * d.hidden + 3 * d.inner)
    if d.recurrent is not None:
        padded = recurrent.whole_chunks(positions) if chunked is None else chunked
        mlp = max(mlp, recurrent.widest(model, d.recurrent, positions, padded))
    if not square:
        return max(mlp, positions * s * (4 * d.hidden + 4 * d.query + 4 * d.kv))
    attention = positions * s * (4 * d.hidden + 4 * d.query + 2 * d.kv)
    if d.attention == "eager":
        attention += square * d.heads * (2 * s + model.wide)
    return max(mlp, attention + square * s)


def packed_forward(model: ModelShape, micro: MicroBatchShape) -> int:
    """`decoder_forward` of packed rows, which only eager attention runs with a mask."""
    square = micro.square if model.decoder.attention == "eager" else 0
    chunked = None if model.decoder.recurrent is None else recurrent.padded_positions(micro)
    return decoder_forward(model, micro.positions, square, chunked)


def decoder_step(model: ModelShape, rows: int) -> int:
    """The widest point of a layer that decodes a token of each row."""
    shape = model.decoder.recurrent
    step = 0 if shape is None else recurrent.widest_step(model, shape, rows)
    return max(step, decoder_forward(model, rows, chunked=0))


def decoder_backward(model: ModelShape, positions: int, square: int) -> int:
    """Gradients within a layer, T s (2H + 2I), in addition to what it has saved and not yet freed. Eager attention: also
    those of scores and attention weights."""
    d, s = model.decoder, model.element
    scores = 2 * square * d.heads * model.wide if d.attention == "eager" else 0
    return positions * s * (2 * d.hidden + 2 * d.inner) + scores


def tower_forward(model: ModelShape, patches: int) -> int:
    """The widest point of a vision layer without gradients, P s max(9W, 3W + 3I), and the pixels, 4 bytes each, with their
    copy in half precision. 9W in attention: input, norm output, q, k and v (3W), rotated q and k, the output and its
    projection. Where positions are interpolated from n learned ones: these, P n W (s + w), if they are more."""
    t, s = model.tower, model.element
    if t is None:
        return 0
    layer = max(9 * t.width, 3 * t.width + 3 * t.inner) * s
    widest = max(layer, t.interpolated * t.width * (s + model.wide))
    pixels = t.values * (4 if s == 4 else 4 + s)
    return patches * (widest + pixels)


def deepstack(model: ModelShape, patches: int) -> int:
    """Features that enter layers of the decoder, H s each, in addition to those that its input has taken up."""
    t = model.tower
    if t is None:
        return 0
    return (t.features - 1) * patches // t.merge * model.decoder.hidden * model.element


def tower_backward(model: ModelShape, patches: int) -> int:
    """Gradients within a vision layer: P s max(2W + 2I, 5W), of which q, k and v take 3W."""
    t = model.tower
    return 0 if t is None else patches * model.element * max(2 * t.width + 2 * t.inner, 5 * t.width)


def chunk_bytes(model: ModelShape, scored: int) -> int:
    """The logits that are held at once, in float32 at least."""
    rows = min(scored, chunk_rows(model.decoder.vocab, gpu=model.gpu))
    return rows * model.decoder.vocab * model.wide


def logits_forward(model: ModelShape, scored: int) -> int:
    """Two chunks: logits in float32, and their log-softmax."""
    return 2 * chunk_bytes(model, scored)


def logits_backward(model: ModelShape, scored: int) -> int:
    """One chunk, changed in place; in half precision also the head's own output, and later the gradient."""
    half = model.element if model.element < 4 else 0
    return chunk_bytes(model, scored) // model.wide * (model.wide + half)
