"""Bytes of recurrent layers: a causal convolution and a gated delta rule in chunks of 64 tokens, by transformers' own operators.

They run prompts [R P] and completions [N T] apart, each padded to the longest (`vlrft.policy.forked`). The kernels of
flash-linear-attention, where it is installed, save less. V values' width of all heads, K keys' width repeated for them, h their
number, d·V numbers of a state; s bytes of an element, w of one in float32 at least; the rule is float32 whatever the dtype.
"""

from __future__ import annotations

from vlrft.memory.shapes import MicroBatchShape, ModelShape, RecurrentShape

CHUNK = 64  # tokens of a chunk
LEAST = 2  # tokens of a completion, padding included
WIDE = 4  # bytes of the rule's numbers


def mixers(model: ModelShape, shape: RecurrentShape, micro: MicroBatchShape) -> int:
    """Bytes that autograd saves in a layer for its prompts, and for its completions after them."""
    run = [max(row - 1, 0) for item in micro.items for row in item.rows]
    completions = [tokens for tokens in run if tokens]
    prompt = max(item.prompt.tokens for item in micro.items)
    saved = _mixer(model, shape, len(micro.items), prompt, forked=False)
    if completions:
        width = max(LEAST, *completions)
        saved += _mixer(model, shape, len(completions), width, forked=True)
    return saved


def positions(micro: MicroBatchShape) -> int:
    """Prompts and completions with their padding."""
    run = [max(row - 1, 0) for item in micro.items for row in item.rows]
    completions = sum(tokens > 0 for tokens in run) * max(LEAST, *run, 0)
    return len(micro.items) * max(item.prompt.tokens for item in micro.items) + completions


def _mixer(model: ModelShape, r: RecurrentShape, rows: int, length: int, *, forked: bool) -> int:
    """For each token of a chunk 4 (5·64h + 3V + 6K + 4h), for each chunk a state; for each token convolutions 2s, queries and
    keys before their norms 8K, and V (3w + 2s) in the gated norm. Trained weights: the inputs of linear modules.
    """
    s, w = model.element, model.wide
    chunks = whole_chunks(length) // CHUNK
    # one chunk without a state before it makes no copy of its queries
    keys = (6 if forked or chunks > 1 else 5) * r.keys
    token = WIDE * (5 * CHUNK * r.value_heads + 3 * r.values + keys + 4 * r.value_heads)
    state = WIDE * r.keys * r.value_dim
    convolved = 2 * length + r.kernel - 1 + (2 * r.kernel if forked else 0)
    each = 2 * WIDE * r.keys + r.values * (3 * w + 2 * s)
    if model.decoder.gradient == "all":
        each += (model.decoder.hidden + r.values) * s
    row = chunks * (CHUNK * token + state) + convolved * r.convolved * s + length * each
    return rows * row


def padded_positions(micro: MicroBatchShape) -> int:
    """`positions`, each row padded to whole chunks."""
    run = [max(row - 1, 0) for item in micro.items for row in item.rows]
    prompts = len(micro.items) * whole_chunks(max(item.prompt.tokens for item in micro.items))
    return prompts + sum(tokens > 0 for tokens in run) * whole_chunks(max(run, default=0))


def whole_chunks(tokens: int) -> int:
    return -(-tokens // CHUNK) * CHUNK


def widest(model: ModelShape, shape: RecurrentShape, positions: int, padded: int) -> int:
    """The widest point of a layer without gradients: its input and residual, what the convolution reads and gives, and of the
    rule four matrices of a chunk with its queries, keys and values twice. `padded`: positions of whole chunks."""
    d = model.decoder
    rule = WIDE * (4 * CHUNK * shape.value_heads + 4 * shape.keys + 2 * shape.values)
    return positions * model.element * (4 * d.hidden + 3 * shape.convolved) + padded * rule


def widest_step(model: ModelShape, shape: RecurrentShape, rows: int) -> int:
    """The widest point of a layer that decodes a token a row: its states, once more after their decay and once in a product."""
    each = 3 * WIDE * shape.keys * shape.value_dim
    return rows * (each + model.element * (4 * model.decoder.hidden + 3 * shape.convolved))


def state_bytes(model: ModelShape) -> int:
    """A row's states in all layers."""
    shape = model.decoder.recurrent
    if shape is None:
        return 0
    convolution = shape.convolved * shape.kernel * model.element
    return shape.layers * (convolution + WIDE * shape.keys * shape.value_dim)
