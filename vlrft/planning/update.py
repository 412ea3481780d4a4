"""The phases that train: the update, its optimiser step, and the check of the first batch."""

from __future__ import annotations

from collections.abc import Mapping

from vlrft.planning import passing, saved
from vlrft.planning.plan import Phase, fullest
from vlrft.planning.shapes import Micro, Model
from vlrft.planning.work import Work, micro_batches

REPLICATED_LOGITS = 2**28  # of `policy.logprobs`: a test holds the two equal
Moments = dict[str, Mapping[str, int]]


def update(model: Model, work: Work, held: Mapping[str, int]) -> Phase:
    """The fullest moment of all micro-batches and of the optimiser step. `held`: what is there all along."""
    groups = [work.prompts[k :: work.updates] for k in range(work.updates)]
    half = model.weights.half if work.master_weights else 0
    step = {"gradients": model.weights.trained + half}
    moments: Moments = {"the optimiser's step": _with(held, step)}
    for prompts in groups:
        micros = micro_batches(prompts, work.group, work.tokens, work.micro_tokens)
        for micro in micros:
            several = len(micros) > 1
            for name, parts in _moments(model, micro, several, work.reference, half).items():
                found = _with(held, parts)
                if name not in moments or sum(moments[name].values()) < sum(found.values()):
                    moments[name] = found
    return fullest("update", moments)


def _with(held: Mapping[str, int], parts: Mapping[str, int]) -> dict[str, int]:
    return {part: held.get(part, 0) + parts.get(part, 0) for part in {**held, **parts}}


def _moments(model: Model, micro: Micro, several: bool, reference: bool, half: int) -> Moments:
    """Forward's end, and the start of the backward pass through each part.

    `several`: micro-batches before this one have left gradients; otherwise they come as activations go. `half`: bytes
    of weights with float32 copies; their gradients come anew, beside the copies' sums, and are added at the end.
    """
    weights, d = model.weights, model.decoder
    length, square = micro.positions, micro.square
    kept, seen = saved.decoder(model, micro), saved.tower(model, micro)
    hidden = (
        micro.positions * d.hidden * model.element
    )  # embeddings, which the forward's caller holds
    trained = weights.trained + half if several else 0
    # The head's gradient is summed beside what it has already.
    head = d.hidden * d.vocab * model.element if model.head_trained else 0
    layer = passing.decoder_backward(model, length, square)
    recomputed = saved.decoder_layer(model, micro) if model.checkpointing else 0
    last = passing.tower_backward(model, micro.patches) if seen else 0
    moments: Moments = {
        "forward of the logits": {
            "gradients": trained,
            "activations": kept + seen,
            "logits": passing.logits_forward(model, micro.scored),
        },
        "backward of the logits": {
            "gradients": trained + head,
            "activations": kept + seen,
            "logits": passing.logits_backward(model, micro.scored),
        },
        "backward of the decoder": {
            "gradients": trained + head,
            "activations": kept + seen + layer + recomputed,
        },
        "backward of the embeddings": {
            "gradients": (half + trained if half else weights.trained)
            + (head + weights.embedding if several else weights.embedding),
            "activations": hidden,
        },
    }
    if half:
        moments["summing gradients in float32"] = {
            "gradients": (half if several else 0) + weights.trained + half
        }
    if reference:
        forward = passing.decoder_forward(model, length, square)
        for name, parts in {
            "the reference's logits": {"logits": passing.logits_forward(model, micro.scored)},
            "the reference's forward": {
                "activations": max(forward, passing.tower_forward(model, micro.patches))
            },
        }.items():
            own = {"gradients": trained, "activations": kept + seen}
            moments[name] = _with(own, parts)
    if model.tower is not None and micro.patches:
        again = 0
        if seen and model.checkpointing and model.tower.gradient != "none":
            again = saved.tower_layer(model, model.tower, micro.patches, saved.squares(micro))
        moments["backward of the vision tower"] = {
            "gradients": head
            + (
                trained + half - weights.tower
                if half
                else max(trained, weights.trained - weights.tower)
            ),
            "activations": seen + again + last,
        }
        moments["forward of the vision tower"] = {
            "gradients": trained,
            "activations": seen + passing.tower_forward(model, micro.patches),
        }
    return moments


def self_check(model: Model, work: Work, held: Mapping[str, int]) -> Phase:
    """The first micro-batch by a plain forward of some whole rows: logits of each position, T V s, and of the scored
    ones again, N V (s + 4 w)."""
    micros = micro_batches(work.prompts, work.group, work.tokens, work.micro_tokens)
    items = micros[0].items
    longest = max(item.prompt.tokens for item in items) + work.tokens
    rows = sum(len(item.rows) for item in items)
    taken = min(max(REPLICATED_LOGITS // model.decoder.vocab // longest, 1), rows)
    positions, vocab = taken * longest, model.decoder.vocab
    scored = taken * work.tokens * vocab * (model.element + 4 * model.wide)
    forward = passing.decoder_forward(model, positions, taken * longest**2)
    packed = passing.decoder_forward(model, micros[0].positions, micros[0].square)
    patches = max(item.prompt.patches for item in items) * taken
    moments: Moments = {
        "plain logits": {"logits": positions * vocab * model.element + scored},
        "plain forward": {"activations": max(forward, passing.tower_forward(model, patches))},
        "packed forward": {"activations": packed},
    }
    return fullest("self-check", {name: _with(held, parts) for name, parts in moments.items()})
