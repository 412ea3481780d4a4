"""The phases of a stage put together: what is held all along, sampling, evaluation, saving."""

from __future__ import annotations

from collections.abc import Mapping

from vlrft.planning import passing
from vlrft.planning.plan import Phase, Plan, fullest
from vlrft.planning.shapes import Model, PromptSize
from vlrft.planning.update import self_check, update
from vlrft.planning.work import Portion, Sampling, Work, portions

PIXEL_CACHE_BYTES = 2**28  # of `chat`
FEATURE_BYTES = 2**30  # of `policy.trunk`
COPIED = (
    0.75  # of the completions' cache: rows that go on are copied when more than a quarter has ended
)


def plan(model: Model, work: Work) -> Plan:
    """Every phase of a stage in its steady state: the optimiser has its moments."""
    held = always(model, work)
    phases = []
    if work.self_check:
        phases.append(self_check(model, work, held | {"optimiser moments": 0}))
    if work.rollout is not None:
        phases.append(sampling("rollout", model, work.rollout, held))
    phases.append(update(model, work, held))
    if work.evaluation is not None:
        before = held | pixels(model, work.evaluation.prompts, work)
        phases.append(sampling("evaluation", model, work.evaluation, before))
    phases.append(save(model, held))
    return Plan(tuple(phases))


def always(model: Model, work: Work) -> dict[str, int]:
    """Weights, float32 copies of trained half-precision ones, a reference's (LoRA has none of its own), two moments a
    trained number, as wide as what the optimiser moves, images."""
    weights = model.weights
    half = weights.half if work.master_weights else 0
    lora = weights.base < weights.total
    return {
        "weights": weights.total,
        "reference weights": weights.total if work.reference and not lora else 0,
        "float32 copies": 2 * half,
        "optimiser moments": 2 * (weights.trained + half),
        **pixels(model, work.prompts, work),
    }


def pixels(model: Model, prompts: tuple[PromptSize, ...], work: Work) -> dict[str, int]:
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
    name: str, model: Model, asked: Sampling, held: Mapping[str, int], *, ending: bool = True
) -> Phase:
    """The fullest moment of all portions. `ending`: some completions end before others, so that rows are copied."""
    found = [_portion(name, model, asked, portion, held, ending) for portion in portions(asked)]
    return max(found, key=lambda phase: phase.total)


def _portion(
    name: str,
    model: Model,
    asked: Sampling,
    portion: Portion,
    held: Mapping[str, int],
    ending: bool,
) -> Phase:
    """Keys and values: 2 K s a layer of each padded prompt's tokens, and room for the longest completion a row.

    Prefill: a layer's forward, its mask of B P² places. Decoding: the logits of a step, or the scores of a layer,
    N h max(P, T) 3w; a copy of the rows that go on.
    """
    d, s = model.decoder, model.element
    token = 2 * d.kv * d.layers * s
    prompts, longest = len(portion.parts) * portion.longest, portion.longest
    prefix, own = prompts * token, portion.rows * asked.tokens * token
    square = prompts * longest
    forward = passing.decoder_forward(model, prompts, square) + 2 * square
    scores = portion.spread * d.heads * max(longest, asked.tokens) * 3 * model.wide
    drawn = portion.rows * asked.tokens * 3 * 8  # tokens, log-probs, random numbers
    logits = passing.choosing(model, portion.rows, greedy=asked.greedy, truncated=asked.truncated)
    latest = portion.rows * d.vocab * s  # the head's, until the next ones are there
    moments = {
        "prefill": {"keys and values": prefix, "activations": forward},
        "images": {"activations": passing.tower_forward(model, portion.patches)},
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
    return fullest(name, {m: _sum(held, parts) for m, parts in moments.items()})


def _sum(held: Mapping[str, int], parts: Mapping[str, int]) -> dict[str, int]:
    return {part: held.get(part, 0) + parts.get(part, 0) for part in {**held, **parts}}


def save(model: Model, held: Mapping[str, int]) -> Phase:
    """What is held; with LoRA a merged copy of the model besides. Files are written from the tensors themselves."""
    weights = model.weights
    copy = weights.total if weights.base < weights.total else 0
    return fullest("save", {"merged copy" if copy else "writing": _sum(held, {"weights": copy})})
