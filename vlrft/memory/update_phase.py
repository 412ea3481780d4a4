"""The phases that train: the update, its optimiser step, and the check of the first batch."""

from __future__ import annotations

from vlrft.memory import saved_tensors, transient
from vlrft.memory.plan import MemoryPhase, find_peak
from vlrft.memory.rank_memory import PartBytes, RankMemory, add_parts
from vlrft.memory.shapes import MicroBatch, ModelShape, VisionShape
from vlrft.memory.workload import StepWork, micro_batches

REPLICATED_LOGITS = 2**28  # of `policy.logprobs`: a test holds the two equal
Moments = dict[str, PartBytes]


def update(model: ModelShape, work: StepWork, share: RankMemory, held: PartBytes) -> MemoryPhase:
    """The fullest moment of all micro-batches and of the optimiser step. `held`: what is there all along."""
    groups = [work.prompts[k :: work.updates] for k in range(work.updates)]
    moments: Moments = {"the optimiser's step": add_parts(held, share.step)}
    for prompts in groups:
        micros = micro_batches(prompts, work.group, work.tokens, work.micro_tokens)
        for micro in micros:
            several = len(micros) > 1
            forth = _forward(model, micro, share, several, work.reference)
            for name, parts in (forth | _backward(model, micro, share, several)).items():
                found = add_parts(held, parts)
                if name not in moments or sum(moments[name].values()) < sum(found.values()):
                    moments[name] = found
    return find_peak("update", moments)


def _forward(
    model: ModelShape, micro: MicroBatch, share: RankMemory, several: bool, reference: bool
) -> dict[str, PartBytes]:
    """Forward's end, and what goes before it. `several`: micro-batches before this one have left gradients."""
    before = {"gradients": share.gradients.summed if several else 0}
    kept, seen = saved_tensors.decoder(model, micro), saved_tensors.tower(model, micro)
    logits = transient.logits_forward(model, micro.scored)
    moments: Moments = {
        "forward of the logits": {**before, "activations": kept + seen, "logits": logits}
    }
    tower = transient.tower_forward(model, micro.patches)
    if reference:
        forward = transient.decoder_forward(model, micro.positions, micro.square)
        moments["the reference's forward"] = {
            **before,
            "activations": kept + seen + max(forward, tower),
        }
    if model.tower is not None and micro.patches:
        moments["forward of the vision tower"] = {**before, "activations": seen + tower}
    return {name: add_parts(parts, share.passes) for name, parts in moments.items()}


def _backward(
    model: ModelShape, micro: MicroBatch, share: RankMemory, several: bool
) -> dict[str, PartBytes]:
    """The start of the backward pass through each part, and what becomes of gradients: they come as activations go, into
    the sum of those before or beside it, as the engine has it.
    """
    weights, d, found = model.weights, model.decoder, share.gradients
    before = found.summed if several else 0
    end = found.at_end(before)
    kept, seen = saved_tensors.decoder(model, micro), saved_tensors.tower(model, micro)
    # The head's gradient is summed beside what it has already.
    head = d.hidden * d.vocab * model.element if model.head_trained else 0
    within = transient.decoder_backward(model, micro.positions, micro.square)
    if model.checkpointing:
        within += saved_tensors.decoder_layer(model, micro)
    # Embeddings, which the forward's caller holds.
    hidden = micro.positions * d.hidden * model.element
    moments: Moments = {
        "backward of the logits": {
            "gradients": before + head,
            "activations": kept + seen,
            "logits": transient.logits_backward(model, micro.scored),
        },
        "backward of the decoder": {
            "gradients": before + head,
            "activations": kept + seen + within,
        },
        "backward of the embeddings": {
            "gradients": end + (head if several else 0) + weights.embedding,
            "activations": hidden,
        },
    }
    if not found.in_place:
        again = found.fresh if several else 0
        moments["summing gradients"] = {"gradients": again + found.summed}
    if model.tower is not None and micro.patches:
        own = found.fresh * weights.tower // max(weights.trained, 1)
        there = max(before, end - own)
        moments["backward of the vision tower"] = {
            "gradients": head + there,
            "activations": seen + _in_tower(model, model.tower, micro, seen),
        }
    moments = {name: add_parts(parts, share.passes) for name, parts in moments.items()}
    if share.reducing:
        left = 1 - share.reduce_from  # of the backward pass
        full = {"gradients": end, "activations": max(int((kept + seen + within) * left), hidden)}
        passes = {name: int(size * left) for name, size in share.passes.items()}
        moments["reducing gradients"] = add_parts(full, passes, share.reducing)
    return {name: add_parts(parts, share.backward) for name, parts in moments.items()}


def _in_tower(model: ModelShape, tower: VisionShape, micro: MicroBatch, seen: int) -> int:
    """Within a layer of the tower: its gradients, and what checkpointing computes again."""
    if not seen:
        return 0
    last = transient.tower_backward(model, micro.patches)
    if model.checkpointing and tower.gradient != "none":
        return last + saved_tensors.tower_layer(
            model, tower, micro.patches, saved_tensors.squares(micro)
        )
    return last


def self_check(model: ModelShape, work: StepWork, held: PartBytes) -> MemoryPhase:
    """The first micro-batch by a plain forward of some whole rows: logits of each position, T V s, and of the scored
    ones again, N V (s + 4 w)."""
    micros = micro_batches(work.prompts, work.group, work.tokens, work.micro_tokens)
    items = micros[0].items
    longest = max(item.prompt.tokens for item in items) + work.tokens
    rows = sum(len(item.rows) for item in items)
    taken = min(max(REPLICATED_LOGITS // model.decoder.vocab // longest, 1), rows)
    positions, vocab = taken * longest, model.decoder.vocab
    scored = taken * work.tokens * vocab * (model.element + 4 * model.wide)
    forward = transient.decoder_forward(model, positions, taken * longest**2)
    packed = transient.decoder_forward(model, micros[0].positions, micros[0].square)
    patches = max(item.prompt.patches for item in items) * taken
    moments: Moments = {
        "plain logits": {"logits": positions * vocab * model.element + scored},
        "plain forward": {"activations": max(forward, transient.tower_forward(model, patches))},
        "packed forward": {"activations": packed},
    }
    return find_peak(
        "self-check", {name: add_parts(held, parts) for name, parts in moments.items()}
    )
