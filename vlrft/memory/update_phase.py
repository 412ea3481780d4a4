"""The phases that train: the update with its optimiser step, and the self-check of the first batch."""

from __future__ import annotations

from vlrft.memory import saved_tensors, transient
from vlrft.memory.limits import CHECKED_ROWS, replicated_rows
from vlrft.memory.micro_batches import plan_micro_batches
from vlrft.memory.plan import MemoryPhase, find_peak
from vlrft.memory.rank_memory import PartBytes, RankMemory, add_parts
from vlrft.memory.shapes import MicroBatchShape, ModelShape, VisionShape
from vlrft.memory.workload import StepWork


def update_phase(
    model: ModelShape, work: StepWork, rank: RankMemory, held: PartBytes
) -> MemoryPhase:
    """The peak over all micro-batches and the optimiser's step. `held`: allocated for the whole stage."""
    moments: dict[str, PartBytes] = {"the optimiser's step": add_parts(held, rank.step)}
    for k in range(work.updates):
        prompts = work.prompts[k :: work.updates]
        micros = plan_micro_batches(model, prompts, work.group, work.tokens, work.micro_tokens)
        for micro in micros:
            several = len(micros) > 1
            passes = _forward(model, micro, rank, several, work.reference)
            passes |= _backward(model, micro, rank, several)
            for moment, parts in passes.items():
                total = add_parts(held, parts)
                if moment not in moments or sum(moments[moment].values()) < sum(total.values()):
                    moments[moment] = total
    return find_peak("update", moments)


def _forward(
    model: ModelShape, micro: MicroBatchShape, rank: RankMemory, several: bool, reference: bool
) -> dict[str, PartBytes]:
    """Moments of a forward pass. `several`: the micro-batches before this one have left gradients."""
    gradients = {"gradients": rank.gradients.summed if several else 0}
    decoder = saved_tensors.decoder(model, micro)
    tower = saved_tensors.tower(model, micro)
    encoding = transient.tower_forward(model, micro.patches)
    features = transient.deepstack(model, micro.patches)
    moments: dict[str, PartBytes] = {
        "forward of the logits": {
            **gradients,
            "activations": decoder + tower + features,
            "logits": transient.logits_forward(model, micro.scored),
        }
    }
    if reference:
        layer = transient.packed_forward(model, micro)
        moments["the reference's forward"] = {
            **gradients,
            "activations": decoder + tower + max(layer, encoding),
        }
    if model.tower is not None and micro.patches:
        moments["forward of the vision model"] = {**gradients, "activations": tower + encoding}
    return {name: add_parts(parts, rank.passes) for name, parts in moments.items()}


def _backward(
    model: ModelShape, micro: MicroBatchShape, rank: RankMemory, several: bool
) -> dict[str, PartBytes]:
    """Moments of a backward pass: the start of each part of the model, where its saved tensors are still there, and the
    handling of the gradients. Gradients grow while saved tensors are freed, in the sum of the micro-batches before or in
    a separate buffer (`GradientMemory.in_place`)."""
    weights, d, gradients = model.weights, model.decoder, rank.gradients
    before = gradients.summed if several else 0
    end = gradients.at_end(before)
    saved = saved_tensors.decoder(model, micro)
    saved_by_tower = saved_tensors.tower(model, micro)
    # The head's gradient is computed in a separate buffer and then added to the sum.
    head = d.hidden * d.vocab * model.element if model.head_trained else 0
    within_layer = transient.decoder_backward(model, micro.positions, micro.square)
    if model.checkpointing:
        within_layer += saved_tensors.largest_layer(model, micro)
    embeddings = micro.positions * d.hidden * model.element  # held by the caller of the forward
    moments: dict[str, PartBytes] = {
        "backward of the logits": {
            "gradients": before + head,
            "activations": saved + saved_by_tower,
            "logits": transient.logits_backward(model, micro.scored),
        },
        "backward of the decoder": {
            "gradients": before + head,
            "activations": saved + saved_by_tower + within_layer,
        },
        "backward of the embeddings": {
            "gradients": end + (head if several else 0) + weights.embedding,
            "activations": embeddings,
        },
    }
    if not gradients.in_place:
        fresh = gradients.fresh if several else 0
        moments["summing gradients"] = {"gradients": fresh + gradients.summed}
    if model.tower is not None and micro.patches:
        of_tower = gradients.fresh * weights.tower // max(weights.trained, 1)
        of_others = max(before, end - of_tower)
        layer = _tower_layer(model, model.tower, micro, saved_by_tower)
        features = transient.deepstack(model, micro.patches) if saved_by_tower else 0
        moments["backward of the vision model"] = {
            "gradients": head + of_others,
            "activations": saved_by_tower + layer + features,
        }
    moments = {name: add_parts(parts, rank.passes) for name, parts in moments.items()}
    if rank.reducing:
        left = 1 - rank.reduce_from  # of the backward pass
        activations = int((saved + saved_by_tower + within_layer) * left)
        passes = {name: int(size * left) for name, size in rank.passes.items()}
        moments["reducing gradients"] = add_parts(
            {"gradients": end, "activations": max(activations, embeddings)}, passes, rank.reducing
        )
    return {name: add_parts(parts, rank.backward) for name, parts in moments.items()}


def _tower_layer(model: ModelShape, tower: VisionShape, micro: MicroBatchShape, saved: int) -> int:
    """The backward pass of one vision layer: its gradients and, with checkpointing, the recomputed tensors; 0 when the
    tower has saved nothing."""
    if not saved:
        return 0
    gradients = transient.tower_backward(model, micro.patches)
    if model.checkpointing and tower.gradient != "none":
        squares = saved_tensors.squares(micro)
        return gradients + saved_tensors.tower_layer(model, tower, micro.patches, squares)
    return gradients


def self_check_phase(model: ModelShape, work: StepWork, held: PartBytes) -> MemoryPhase:
    """The first micro-batch again, by a plain forward pass of some rows of each packed row, a few at once: the
    logits of every position, T V s, and of the scored ones once more, N V (s + 4w)."""
    micros = plan_micro_batches(model, work.prompts, work.group, work.tokens, work.micro_tokens)
    items = micros[0].items
    longest = max(item.prompt.tokens for item in items) + work.tokens
    vocab = model.decoder.vocab
    rows = min(
        replicated_rows(vocab, longest), sum(min(len(item.rows), CHECKED_ROWS) for item in items)
    )
    positions = rows * longest
    scored = rows * work.tokens * vocab * (model.element + 4 * model.wide)
    plain = transient.decoder_forward(model, positions, rows * longest**2)
    packed = transient.packed_forward(model, micros[0])
    patches = max(item.prompt.patches for item in items) * rows
    encoding = transient.tower_forward(model, patches)
    moments = {
        "plain logits": {"logits": positions * vocab * model.element + scored},
        "plain forward": {"activations": max(plain, encoding)},
        "packed forward": {"activations": packed},
    }
    total = {name: add_parts(held, parts) for name, parts in moments.items()}
    return find_peak("self-check", total)
