"""What a pass holds for a moment only: the widest place of a layer, of the logits, of a sampling step."""

from __future__ import annotations

from vlrft.memory.shapes import ModelShape

GPU_FACTOR = 8  # of `linear_logprobs` too
CHUNK_LOGITS = 2**24  # of `linear_logprobs`: a test holds the two equal
SAMPLED, TRUNCATED, GREEDY = 28, 37, 8  # bytes a logit of `choose` besides the head's own output


def decoder_forward(model: ModelShape, positions: int, square: int) -> int:
    """The widest place of a layer without gradients, T s max(4H + 3I, 4H + 4A + 2K) + the mask as numbers.

    MLP: the embeddings, the layer's input, the residual, the norm's result; gate, up and their product. Attention: the
    same of H; queries, keys and values, these repeated, and its output. eager: scores, masked scores and shares.
    """
    d, s = model.decoder, model.element
    mlp = positions * s * (4 * d.hidden + 3 * d.inner)
    heads = positions * s * (4 * d.hidden + 4 * d.query + 2 * d.kv)
    if d.attention == "eager":
        heads += square * d.heads * (2 * s + model.wide)
    return max(mlp, heads + square * s)


def decoder_backward(model: ModelShape, positions: int, square: int) -> int:
    """The gradients within a layer, T s (2H + 2I) beyond what is let go meanwhile; eager: of scores and shares too."""
    d, s = model.decoder, model.element
    scores = 2 * square * d.heads * model.wide if d.attention == "eager" else 0
    return positions * s * (2 * d.hidden + 2 * d.inner) + scores


def tower_forward(model: ModelShape, patches: int) -> int:
    """The widest place of a tower's layer without gradients, P max(9W s, 3W s + 3I s), and the pixels, P v 4, with
    their copy in half precision. In attention: input, norm, the 3W of q, k and v, rotated q and k, output twice."""
    t, s = model.tower, model.element
    if t is None:
        return 0
    widest = max(9 * t.width, 3 * t.width + 3 * t.inner) * s
    pixels = t.values * (4 if s == 4 else 4 + s)
    return patches * (widest + pixels)


def tower_backward(model: ModelShape, patches: int) -> int:
    """The gradients within a tower's layer: P s max(2W + 2I, 5W), those of q, k and v being 3W."""
    t = model.tower
    return 0 if t is None else patches * model.element * max(2 * t.width + 2 * t.inner, 5 * t.width)


def chunk_rows(model: ModelShape) -> int:
    """Scored tokens whose logits are held at once."""
    return max(CHUNK_LOGITS * (GPU_FACTOR if model.gpu else 1) // model.decoder.vocab, 1)


def chunk(model: ModelShape, scored: int) -> int:
    """Bytes of the logits that are held at once, in float32 at least."""
    return min(scored, chunk_rows(model)) * model.decoder.vocab * model.wide


def logits_forward(model: ModelShape, scored: int) -> int:
    """2 chunks: logits and their exponentials; of several chunks the last one's besides. Half precision: the head's."""
    return chunk(model, scored) * (3 if scored > chunk_rows(model) else 2) + _half(model, scored)


def logits_backward(model: ModelShape, scored: int) -> int:
    """1 chunk, worked on in place; of several the last one's besides. Half precision: the head's."""
    return chunk(model, scored) * (2 if scored > chunk_rows(model) else 1) + _half(model, scored)


def _half(model: ModelShape, scored: int) -> int:
    return chunk(model, scored) // model.wide * model.element if model.element < 4 else 0


def choosing(model: ModelShape, rows: int, *, greedy: bool, truncated: bool = False) -> int:
    """Bytes of a sampling step's logits [N V]. Sampled: the head's s, log-probs in float32 three times and twice in
    float64 for the cumulative sum; greedy: the head's, scaled, masked, and a float32 copy of half precision."""
    s = model.element
    drawn = TRUNCATED if truncated else SAMPLED
    each = GREEDY + (4 if s < 4 else 0) if greedy else drawn
    return rows * model.decoder.vocab * (each + s)
