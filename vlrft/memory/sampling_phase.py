"""Sampling with the policy's own module and a KV cache that keeps each prompt once for all its completions.

A rollout engine that samples in this way uses `shared_prefix_memory`; others have their own formulas.
"""

from __future__ import annotations

from vlrft.memory import recurrent, transient
from vlrft.memory.limits import KEEP_SHARE
from vlrft.memory.plan import Moments
from vlrft.memory.rank_memory import PartBytes
from vlrft.memory.shapes import ModelShape
from vlrft.memory.workload import RequestBatch, RolloutWork, request_batches

# Bytes that sampling a token takes for each logit, in addition to the head's output. Sampled: log-probs in float32
# three times and, for the cumulative sum, twice in float64; truncated (top_p, top_k): the sorted logits as well; greedy:
# scaled logits, and their exponentials.
SAMPLED, TRUNCATED, GREEDY = 28, 37, 8
RESULT = 76  # bytes of a sampled token on the host: a random number, its id and its log-prob in lists of Python


def shared_prefix_memory(
    model: ModelShape, work: RolloutWork, *, ragged: bool = True
) -> dict[str, PartBytes]:
    """Bytes by part at each moment of sampling, each the largest of all batches. `ragged`: some completions end before
    others, so that the cache of the unfinished ones is copied."""
    batches = request_batches(work)
    moments: dict[str, PartBytes] = {}
    for batch in batches:
        refilled = ragged and len(batches) > 1
        for moment, parts in _batch_memory(
            model, work, batch, ragged=ragged, refilled=refilled
        ).items():
            if sum(parts.values()) > sum(moments.get(moment, {}).values()):
                moments[moment] = parts
    return moments


def _batch_memory(
    model: ModelShape, work: RolloutWork, batch: RequestBatch, *, ragged: bool, refilled: bool
) -> Moments:
    """Keys and values: 2 K s per layer that attends and token of a padded prompt, and room for the longest completion in each
    row; states of recurrent layers for each prompt, and for each row.

    Prefill: a layer's forward pass; where completions still wait (`refilled`), beside the rows that have not ended. Decoding: a
    layer's forward pass of one token a row, queries and outputs once more in the order of their prompts. Dropping rows: a copy of
    the remaining ones, a layer at a time, and of episodes the contexts of those that leave.
    """
    d, s = model.decoder, model.element
    token = 2 * d.kv * d.attending * s
    state = recurrent.state_bytes(model)
    positions = len(batch.parts) * batch.longest
    prefix = positions * token + len(batch.parts) * state
    completions = batch.rows * (work.tokens * token + state)
    results = 0 if model.gpu else batch.rows * work.tokens * RESULT
    last_logits = batch.rows * d.vocab * s  # the head's output, until the next replaces it
    placed = batch.padded_rows * d.query * s * 3
    chunked = len(batch.parts) * recurrent.whole_chunks(batch.longest)
    prefill = transient.decoder_forward(model, positions, chunked=chunked)
    prefill += transient.deepstack(model, batch.patches)
    moments: dict[str, PartBytes] = {
        "prefill": {"keys and values": prefix, "activations": prefill},
        "encoding images": {"activations": transient.tower_forward(model, batch.patches)},
        "sampling tokens": {
            "keys and values": prefix + completions,
            "logits": sampling_logits(model, work, batch.rows),
            "activations": results,
        },
        "decoding": {
            "keys and values": prefix + completions,
            "activations": transient.decoder_step(model, batch.rows) + placed + results,
            "logits": last_logits,
        },
    }
    kept = int(KEEP_SHARE * (prefix + completions))
    if ragged and batch.rows > 1:
        moments["dropping finished rows"] = {
            "keys and values": prefix
            + completions
            + kept // d.layers
            + _kept_contexts(model, work, batch),
            "activations": results,
            "logits": last_logits,
        }
    if refilled:
        # The rows that have ended are still in the cache while the prompts of those that enter are run.
        tower = transient.tower_forward(model, batch.patches)
        moments["refilling the cache"] = {
            "keys and values": 2 * prefix + completions,
            "activations": max(prefill, tower) + results,
            "logits": last_logits,
        }
    return moments


def _kept_contexts(model: ModelShape, work: RolloutWork, batch: RequestBatch) -> int:
    """Bytes of the contexts that are kept for the next turn, at most those of all rows, in the room that the cache leaves."""
    d = model.decoder
    if not work.episodes or d.recurrent is not None:
        return 0
    tokens = len(batch.parts) * batch.longest + batch.rows * work.tokens
    spare = max(work.max_cache_tokens - tokens, 0)
    return min(tokens, spare) * 2 * d.kv * d.attending * model.element


def sampling_logits(model: ModelShape, work: RolloutWork, rows: int) -> int:
    """Bytes of the logits [N V] while a token is sampled for each of N rows."""
    sampled = TRUNCATED if work.truncated else SAMPLED
    each = GREEDY if work.greedy else sampled
    return rows * model.decoder.vocab * (each + model.element)
