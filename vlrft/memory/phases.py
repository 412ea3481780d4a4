"""The phases of a stage put together: what is held all along, sampling, evaluation, saving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vlrft.memory import transient
from vlrft.memory.plan import MemoryPhase, MemoryPlan, find_peak
from vlrft.memory.rank_memory import PartBytes, RankMemory, add_parts, merge_host_memory
from vlrft.memory.shapes import ModelShape, PromptSize
from vlrft.memory.update_phase import self_check, update
from vlrft.memory.workload import RequestBatch, RolloutWork, StepWork, portions

PIXEL_CACHE_BYTES = 2**28  # of `chat`
FEATURE_BYTES = 2**30  # of `policy.backbone`
COPIED = (
    0.75  # of the completions' cache: rows that go on are copied when more than a quarter has ended
)


def plan(model: ModelShape, work: StepWork, share: RankMemory) -> MemoryPlan:
    """Every phase of a stage in its steady state: the optimiser has its moments. `share`: what the engine gives a rank."""
    share = share if model.gpu else merge_host_memory(share)
    held = held_throughout(model, work, share)
    samples = add_parts(held, share.sampling)
    phases = []
    if work.self_check:
        whole = add_parts(held, share.self_check)
        first = whole if share.moments_from_start else whole | {"optimiser moments": 0}
        phases.append(self_check(model, work, first))
    if work.rollout is not None:
        phases.append(sampling("rollout", model, work.rollout, samples))
    phases.append(update(model, work, share, held))
    if work.evaluation is not None:
        before = samples | pixels(model, work.evaluation.prompts, work)
        phases.append(sampling("evaluation", model, work.evaluation, before))
    told = [replace(phase, host=share.host) for phase in phases]
    return MemoryPlan((*told, save(model, work, share, held)))


def held_throughout(model: ModelShape, work: StepWork, share: RankMemory) -> dict[str, int]:
    """What the engine holds, a reference's weights, whole on each rank (LoRA has none of its own), images."""
    weights = model.weights
    lora = weights.base < weights.total
    reference = weights.total if work.reference and not lora else 0
    own = {"reference weights": reference, **pixels(model, work.prompts, work)}
    return add_parts(share.held, own)


def pixels(model: ModelShape, prompts: tuple[PromptSize, ...], work: StepWork) -> dict[str, int]:
    """Pixels of the prompts that are worked on, P v 4, or what the cache holds of them where that is more (a GPU has
    none of them), and features that a frozen tower gave, P/4 H s, at most 1 GiB."""
    t = model.tower
    if t is None:
        return {}
    patches = sum(prompt.patches for prompt in prompts)
    seen = 0 if not prompts else patches // len(prompts) * (work.images or 2**40)
    held = 2 * patches if work.ahead else patches  # the step's, and those of the step to come
    size = 0 if model.gpu else max(held, min(seen, PIXEL_CACHE_BYTES // (t.values * 4)))
    features = 0
    if t.gradient == "none" and not t.projector:
        features = min(
            max(seen, patches) // t.merge * model.decoder.hidden * model.element, FEATURE_BYTES
        )
    return {"pixels and features": size * t.values * 4 + features}


def sampling(
    name: str,
    model: ModelShape,
    asked: RolloutWork,
    held: Mapping[str, int],
    *,
    ending: bool = True,
) -> MemoryPhase:
    """The fullest moment of all portions. `ending`: some completions end before others, so that rows are copied."""
    found = [_portion(name, model, asked, portion, held, ending) for portion in portions(asked)]
    return max(found, key=lambda phase: phase.total)


def _portion(
    name: str,
    model: ModelShape,
    asked: RolloutWork,
    portion: RequestBatch,
    held: Mapping[str, int],
    ending: bool,
) -> MemoryPhase:
    """Keys and values: 2 K s a layer of each padded prompt's tokens, and room for the longest completion a row.

    Prefill: a layer's forward, its mask of B P² places. Decoding: the logits of a step, or the scores of a layer,
    N h max(P, T) 3w; a copy of the rows that go on.
    """
    d, s = model.decoder, model.element
    token = 2 * d.kv * d.layers * s
    prompts, longest = len(portion.parts) * portion.longest, portion.longest
    prefix, own = prompts * token, portion.rows * asked.tokens * token
    square = prompts * longest
    forward = transient.decoder_forward(model, prompts, square) + 2 * square
    scores = portion.spread * d.heads * max(longest, asked.tokens) * 3 * model.wide
    drawn = portion.rows * asked.tokens * 3 * 8  # tokens, log-probs, random numbers
    logits = transient.choosing(model, portion.rows, greedy=asked.greedy, truncated=asked.truncated)
    latest = portion.rows * d.vocab * s  # the head's, until the next ones are there
    moments = {
        "prefill": {"keys and values": prefix, "activations": forward},
        "images": {"activations": transient.tower_forward(model, portion.patches)},
        "choosing tokens": {
            "keys and values": prefix + own,
            "logits": logits,
            "activations": drawn,
        },
        "decoding": {
            "keys and values": prefix + own,
            "activations": scores + drawn,
            "logits": latest,
        },
        "rows that ended leave": {
            "keys and values": prefix + own + int(COPIED * own),
            "activations": drawn,
            "logits": latest,
        },
    }
    if portion.rows < 2 or not ending:
        del moments["rows that ended leave"]
    return find_peak(name, {m: add_parts(held, parts) for m, parts in moments.items()})


def save(model: ModelShape, work: StepWork, share: RankMemory, held: PartBytes) -> MemoryPhase:
    """What is held, and with LoRA a merged copy of the model, or what an engine gathers. Files are written from the
    tensors themselves; a GPU's that resuming needs are the first rank's in the machine's memory meanwhile."""
    weights = model.weights
    lora = weights.base < weights.total
    moments = {
        "merged copy" if lora else "writing": add_parts(held, {"weights": weights.total * lora}),
        "gathering": add_parts(held, share.gathering),
    }
    if not model.gpu:
        return find_peak("save", {name: add_parts(m, share.saving) for name, m in moments.items()})
    reference = weights.trained if work.reference and not lora else 0
    host = add_parts(share.host, share.saving, {"reference weights": reference})
    return replace(find_peak("save", moments), host={k: size for k, size in host.items() if size})
