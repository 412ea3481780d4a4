"""One case of benchmarks.memory: builds a policy, takes two update steps and samples, and prints each phase's peak
with the estimate of `vlrft doctor CONFIG`.

    python -m benchmarks.memory.case '{"name": …}'

On a CPU: peak resident memory (VmHWM, reset before each phase) above that of the imported libraries. On a GPU: peak of
`torch.cuda.max_memory_allocated`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from pydantic import TypeAdapter

from benchmarks.memory.peak_meter import PeakMeter
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import find_algorithm
from vlrft.config import PolicyConfig, UpdateConfig
from vlrft.engine import TrainEngine, build_engine
from vlrft.engine.single import Single
from vlrft.memory.phases import add_unpacking, held_throughout, sampling_phase
from vlrft.memory.plan import MemoryPhase
from vlrft.memory.rank_memory import add_parts
from vlrft.memory.sampling_phase import shared_prefix_memory
from vlrft.memory.shapes import PromptSize
from vlrft.memory.update_phase import update_phase
from vlrft.memory.workload import RolloutWork, StepWork
from vlrft.policy.families._qwen import SPECIAL_TOKENS
from vlrft.policy.load import load_policy
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.schema import Group, Piece, Pixels, Prompt, Rollout, Sample, TrainingRow
from vlrft.trainer.batch import make_batch
from vlrft.trainer.memory_plan.model_shapes import load_model_shape
from vlrft.trainer.memory_plan.prompt_lengths import SizedTokenizer
from vlrft.trainer.update import update

SMALL_VOCAB = 320  # of the built tokenizer; a larger vocabulary of the model is set separately
WORDS = 256  # ids below it are text in every vocabulary


@dataclass(frozen=True, kw_only=True)
class Case:
    """`policy` as in a config, a vocabulary, and the sizes of a step. `model`: the folder in which `stored` saved the policy
    that `policy.build` describes; 4-bit weights are loaded from files."""

    name: str
    policy: Mapping[str, Any]
    vocab: int = SMALL_VOCAB
    prompts: int = 1
    text: int = 32  # tokens of a prompt that are no image's
    image: int = 0  # side of its image in patches
    group: int = 8
    tokens: int = 64
    budget: int = 16384
    algorithm: Any = "gpg"
    phases: tuple[str, ...] = field(default=("update", "rollout"))
    model: str = ""


def policy_config(case: Case) -> PolicyConfig:
    """The case's policy; from its files where they are stored."""
    settings = dict(case.policy)
    if case.model:
        del settings["build"]
        settings = {"model": case.model, "activation_checkpointing": False, **settings}
    return TypeAdapter(PolicyConfig).validate_python(settings)


@contextmanager
def stored(case: Case) -> Iterator[Case]:
    """The case with its policy in a folder where it has 4-bit weights; any other case as it is. The files are written by
    another process: what it frees here would be used again, unseen."""
    if case.policy.get("quantization") is None:
        yield case
        return
    with TemporaryDirectory() as folder:
        writer = get_context("spawn").Process(target=_store, args=(case, Path(folder)))
        writer.start()
        writer.join()
        if writer.exitcode:
            raise RuntimeError(f"the process that stores the policy ended with {writer.exitcode}")
        yield replace(case, model=folder)


def _store(case: Case, folder: Path) -> None:
    policy = load_policy(policy_config(replace(case, policy={"build": case.policy["build"]})))
    if case.vocab != SMALL_VOCAB:
        policy.model.resize_token_embeddings(case.vocab, mean_resizing=False)
    policy.save(folder)


def make_prompts(case: Case, policy: Policy) -> list[Prompt]:
    """Prompts of the case's sizes with random pixels."""
    image_token = policy.backbone.place_ids[0]
    prompts: list[Prompt] = []
    for k in range(case.prompts):
        images: tuple[Pixels, ...] = ()
        if case.image:
            values = torch.randn(case.image**2, 1176)
            grid = (1, case.image, case.image)
            images = (Pixels(key=str(k), tokens=case.image**2 // 4, grid=grid, values=values),)
        ids = [k % WORDS] * case.text + [image_token] * (case.image**2 // 4)
        prompts.append(Prompt(ids=tuple(ids), images=images))
    return prompts


def make_groups(case: Case, prompts: list[Prompt]) -> list[Group]:
    """Groups of answers of maximum length with rewards 0, 1, 0, 1 …"""
    groups: list[Group] = []
    for k, prompt in enumerate(prompts):
        sample = Sample(id=str(k), messages=())
        rollouts = []
        for g in range(case.group):
            ids = tuple((g + t) % WORDS for t in range(case.tokens))
            piece = Piece(ids=ids, text="", logprobs=(-1.0,) * case.tokens, finish="length")
            row = TrainingRow(prompt=prompt, pieces=(piece,))
            rollouts.append(Rollout(sample=sample, rows=(row,), reward=float(g % 2)))
        groups.append(Group(sample=sample, rollouts=tuple(rollouts)))
    return groups


def measure(case: Case, device: str) -> dict[str, int]:
    """Peak bytes of each phase; the optimiser has its moments if there was an update."""
    config = policy_config(case)
    meter = PeakMeter(device == "cuda")
    policy = load_policy(config, device=device)
    if not case.model and case.vocab != SMALL_VOCAB:
        policy.model.resize_token_embeddings(case.vocab, mean_resizing=False)
    prompts = make_prompts(case, policy)
    peaks: dict[str, int] = {}
    engine = build_engine(UpdateConfig(), policy, 4)  # it holds the moments
    if "update" in case.phases:
        peaks["update"] = measure_update(case, policy, engine, prompts, meter)
    if "rollout" in case.phases:
        policy.chat.end_ids = frozenset()  # every answer has the maximum length
        requests = [
            Request(id=str(k), prompt=p, seeds=tuple(range(k * case.group, (k + 1) * case.group)))
            for k, p in enumerate(prompts)
        ]
        meter.reset()
        HfEngine(policy).generate(requests, Sampling(max_tokens=case.tokens))
        peaks["rollout"] = meter.peak()
    return peaks


def measure_update(
    case: Case, policy: Policy, engine: TrainEngine, prompts: list[Prompt], meter: PeakMeter
) -> int:
    """Peak bytes of the second step, at which the optimiser has its moments."""
    algorithm = find_algorithm(case.algorithm)
    reference = policy.reference() if algorithm.needs.ref_logprobs else None
    groups = make_groups(case, prompts)
    for _ in range(2):
        meter.reset()
        advantages = estimate_rows(groups, algorithm.estimator, max_tokens=case.tokens)
        batch = make_batch(groups, advantages, algorithm, temperature=1.0, max_tokens=case.tokens)
        update(engine, [batch], algorithm, case.budget, reference)
    return meter.peak()


def estimate(case: Case, device: str) -> dict[str, MemoryPhase]:
    """The plan's phases for the same shapes."""
    config = policy_config(case)
    if config.build is not None:
        words = max(case.vocab, WORDS + len(SPECIAL_TOKENS))
        config = replace(config, build=replace(config.build, vocab_size=words))
    model = load_model_shape(config, tokenizer=SizedTokenizer(case.vocab), device=device)
    size = PromptSize(tokens=case.text + case.image**2 // 4, patches=case.image**2)
    prompts = (size,) * case.prompts
    work = StepWork(
        prompts=prompts,
        group=case.group,
        tokens=case.tokens,
        micro_tokens=case.budget,
        reference=find_algorithm(case.algorithm).needs.ref_logprobs,
        distinct_images=case.prompts,
    )
    share = add_unpacking(Single().rank_memory(UpdateConfig(), model, 1), model)
    held = held_throughout(model, work, share)
    if "update" not in case.phases:
        held["optimiser moments"] = 0
    asked = RolloutWork(prompts=prompts, answers=case.group, tokens=case.tokens)
    moments = shared_prefix_memory(model, asked, ragged=False)
    return {
        "update": update_phase(model, work, share, held),
        "rollout": sampling_phase("rollout", moments, add_parts(held, share.sampling)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", metavar="JSON", help="fields of Case")
    case = TypeAdapter(Case).validate_json(parser.parse_args().case)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    small = {**case.policy, "build": {"family": case.policy["build"].get("family", "qwen2_vl")}}
    image = 8 if case.image else 0
    warm_up = replace(case, policy=small, vocab=SMALL_VOCAB, image=image, tokens=2, text=8)
    with stored(warm_up) as first, stored(case) as whole:
        # Libraries load parts of themselves at first use, so a small case runs before.
        measure(first, device)
        expected = estimate(whole, device)
        for phase, peak in measure(whole, device).items():
            plan = expected[phase]
            row = {"phase": phase, "measured": peak, "estimate": plan.total, "moment": plan.moment}
            print(json.dumps(row | {"parts": dict(plan.parts)}), flush=True)


if __name__ == "__main__":
    main()
