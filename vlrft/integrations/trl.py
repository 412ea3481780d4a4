"""TRL's GRPOTrainer with our advantages, objectives, reductions and denominators (`pip install 'vlrft[trl]'`).

TRL samples, rewards, computes log-probs, accumulates and steps. This file puts the loss in place of its own.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

import torch
from torch import Tensor

from vlrft.algorithms import Algorithm, find_algorithm
from vlrft.distributed.ranks import Ranks
from vlrft.integrations.foreign_step import Answer, WholeStep, whole_step
from vlrft.integrations.trl_settings import refusals
from vlrft.objectives import GroupCoupled, LossBatch, guard
from vlrft.schema.errors import ConfigError
from vlrft.vision.processor import prepare_torchvision

prepare_torchvision()
try:
    GRPOTrainer: Any = import_module("trl").GRPOTrainer
except (ImportError, RuntimeError) as e:  # RuntimeError: TRL lacks one of its own imports
    raise ImportError(
        f"vlrft.integrations.trl needs TRL: pip install 'vlrft[trl]' ({str(e).splitlines()[-1]})"
    ) from e

# What this class hangs on. Without one of them TRL would go on with its own loss, silently.
SEAMS = (
    "_calculate_rewards",
    "_compute_loss",
    "_generate_and_score_completions",
    "_get_per_token_logps_and_entropies",
)
for seam in SEAMS:
    if not hasattr(GRPOTrainer, seam):
        raise ImportError(f"vlrft.integrations.trl is written for TRL 1.16: this one has no {seam}")


def _by_name(names: Sequence[str], scores: Sequence[float]) -> dict[str, float | None]:
    return {n: None if math.isnan(s) else s for n, s in zip(names, scores, strict=True)}


class VlrftGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """`GRPOTrainer` that trains by one of our methods.

        VlrftGRPOTrainer(algorithm={"name": "gmpo", "reduction": "token"}, model=…, args=GRPOConfig(…), …)

    `algorithm` is what a config says: a name, or a mapping with a `name` and the parts that differ. All other arguments
    are GRPOTrainer's, by keyword. A mistake in either is a ConfigError before the model is loaded.

    The gradient is exact: an optimiser step is one generation batch (`steps_per_generation` equals
    `gradient_accumulation_steps`, TRL's default), every rank knows the whole of it before the first micro-batch, and each
    micro-batch adds its share, as in our own loop. More updates on the same answers: `num_iterations`.

    What stays TRL's: *sampling*, so that a keep rule drops groups but samples none in their place; the *reference*, which
    is loaded when the method needs one (`sync_ref_model` moves it); *log-probs*, in which tokens that sampling suppresses
    are not masked out. Each reward function is a named score with its weight; None from all of them takes the answer out of
    the step. Group-coupled methods run one more forward a step, without gradients. With vLLM, TRL's correction must be
    off; ours is `regularize: {correction: token}` (not tried with vLLM here).
    """

    def __init__(
        self, *, algorithm: str | Mapping[str, Any] = "grpo", args: Any, **given: Any
    ) -> None:
        self.algorithm: Algorithm = find_algorithm(algorithm)
        mistakes = refusals(self.algorithm, args)
        if mistakes:
            raise ConfigError(mistakes)
        self._scores: list[list[float]] = []  # of all ranks' latest answers
        self._steps: dict[str, WholeStep] = {}  # "train", "eval"
        args = copy.copy(args)
        if self.algorithm.needs.ref_logprobs:
            args.beta = (
                self.algorithm.regularize.kl or 1.0
            )  # TRL loads a reference when it is not 0
        super().__init__(args=args, **given)
        if self.aux_loss_enabled:
            raise ConfigError(["router_aux_loss_coef: not part of our losses; set it to 0"])
        if len(set(self._names)) < len(self._names):
            raise ConfigError([f"reward_funcs: two have one name: {', '.join(self._names)}"])

    @property
    def _names(self) -> list[str]:
        return [name.replace("/", "_") for name in self.reward_func_names]

    @property
    def _mode(self) -> str:
        return "train" if self.model.training else "eval"

    def _calculate_rewards(self, *given: Any) -> Tensor:
        found = cast(
            Tensor, super()._calculate_rewards(*given)
        )  # [answers of all ranks, functions]
        self._scores = found.tolist()
        return found

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = super()._generate_and_score_completions(inputs)
        mode, ranks = self._mode, Ranks.current()
        own = self._answers(out)
        answers = [
            replace(answer, scores=_by_name(self._names, scores))
            for answer, scores in zip(
                (a for part in ranks.gather(own) for a in part), self._scores, strict=True
            )
        ]
        weights = dict(zip(self._names, self.reward_weights.tolist(), strict=True))
        size = self.num_generations if mode == "train" else self.num_generations_eval
        length = self.max_completion_length or 0
        step = self._steps[mode] = whole_step(answers, size, self.algorithm, weights, length)
        first = ranks.rank * len(own)
        out["row"] = torch.arange(first, first + len(own), device=out["completion_ids"].device)
        for _ in answers:  # TRL's table of completions shows its own advantages
            self._logs["advantages"].pop()
        self._logs["advantages"].extend(step.advantages)
        return out

    def _answers(self, out: Mapping[str, Any]) -> list[Answer]:
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        ids, lengths = out["completion_ids"].tolist(), out["completion_mask"].sum(1).tolist()
        sampled = out.get("tool_mask", out["completion_mask"]).bool().tolist()
        return [
            Answer(
                ids=tuple(row[:n]),
                sampled=tuple(own[:n]),
                truncated=n > 0 and row[n - 1] not in ends,
                scores={},
            )
            for row, own, n in zip(ids, sampled, lengths, strict=True)
        ]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        mode = self._mode
        algorithm = self.algorithm.at(self.state.global_step / max(self.state.max_steps, 1))
        begins = mode == "eval" or self._step % self.args.gradient_accumulation_steps == 0
        if algorithm.needs.group_stats and begins:
            parts = [inputs] if mode == "eval" else self._buffered_inputs
            self._steps[mode] = self._with_stats(model, parts, algorithm)
        logprobs, entropy = self._score(model, inputs)
        here, rows = self._rows(self._steps[mode], inputs, logprobs, entropy, algorithm)
        if not len(here):
            return logprobs.sum() * 0.0  # nothing to learn here, but every rank runs backward
        loss, terms = algorithm.loss(logprobs[here, : rows.mask.shape[1]], rows)
        observed = dict(terms.observed) | {"entropy": entropy[here, : rows.mask.shape[1]].detach()}
        for name, values in observed.items():
            self._metrics[mode][name].append(float(values[rows.mask].mean()))
        for name, value in terms.scalars.items():
            self._metrics[mode][name].append(value)
        ranks: int = self.accelerator.num_processes
        return loss * ranks  # gradients are averaged over the ranks

    def _score(self, model: Any, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Log-probs and entropies [B, T] of the completions; images and the like go in by their names."""
        taken = inspect.signature(self._get_per_token_logps_and_entropies).parameters
        parts = [("prompt_ids", "completion_ids"), ("prompt_mask", "completion_mask")]
        ids, mask = (torch.cat([inputs[a], inputs[b]], dim=1) for a, b in parts)
        logprobs, entropy, _ = self._get_per_token_logps_and_entropies(
            model,
            ids,
            mask,
            inputs["completion_ids"].size(1),
            compute_entropy=True,
            **{name: value for name, value in inputs.items() if name in taken},
        )
        return logprobs, entropy

    def _rows(
        self,
        step: WholeStep,
        inputs: Mapping[str, Any],
        logprobs: Tensor,
        entropy: Tensor,
        algorithm: Algorithm,
    ) -> tuple[Tensor, LossBatch]:
        """Which rows of the micro-batch are trained on, and what the objective reads of them."""
        pairs = [
            (i, step.place[n]) for i, n in enumerate(inputs["row"].tolist()) if n in step.place
        ]
        here = torch.tensor([i for i, _ in pairs], dtype=torch.long, device=logprobs.device)
        there = torch.tensor([b for _, b in pairs], dtype=torch.long)
        width = min(logprobs.shape[1], step.loss.mask.shape[1])
        wide = torch.promote_types(logprobs.dtype, torch.float32)
        rows = step.loss.rows(there, width).to(logprobs.device, wide)

        def cut(name: str) -> Tensor | None:
            given = inputs.get(name)
            return None if given is None else given[here, :width].to(wide)

        old, ref = cut("old_per_token_logps"), cut("ref_per_token_logps")
        if old is None:
            old = logprobs.detach()[here, :width]
        return here, replace(
            rows,
            sampled_logprobs=cut("sampling_per_token_logps"),
            old_logprobs=guard(old, rows.mask, "old log-probs"),
            ref_logprobs=None if ref is None else guard(ref, rows.mask, "reference log-probs"),
            entropy=entropy[here, :width] if algorithm.needs.entropy else None,
        )

    @torch.no_grad()
    def _with_stats(
        self, model: Any, parts: Sequence[Mapping[str, Any]], algorithm: Algorithm
    ) -> WholeStep:
        """The step with what its rows must know of their groups, which TRL deals out over micro-batches and ranks."""
        step = self._steps[self._mode]
        found: list[tuple[int, dict[str, Tensor]]] = []
        for part in parts:
            now, entropy = self._score(model, part)
            here, rows = self._rows(step, part, now, entropy, algorithm)
            given = {"now": now[here], "old": rows.old_logprobs, "ref": rows.ref_logprobs}
            there = [step.place[int(n)] for n in part["row"][here]]
            for k, b in enumerate(there):
                found.append((b, {name: v[k].cpu() for name, v in given.items() if v is not None}))
        mask = step.loss.mask
        filled = {k: torch.zeros(mask.shape, dtype=torch.float64) for k in ("now", "old", "ref")}
        for b, values in (row for rank in Ranks.current().gather(found) for row in rank):
            for name, value in values.items():
                width = min(len(value), mask.shape[1])
                filled[name][b, :width] = value[:width].double()
        clean = {name: guard(values, mask, f"{name} log-probs") for name, values in filled.items()}
        ref = clean["ref"] if algorithm.needs.ref_logprobs else None
        whole = replace(step.loss, old_logprobs=clean["old"], ref_logprobs=ref)
        stats = cast(GroupCoupled, algorithm.objective).group_stats(clean["now"], whole)
        return replace(step, loss=replace(step.loss, stats=stats))
