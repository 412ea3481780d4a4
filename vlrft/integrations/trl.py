"""TRL's GRPOTrainer with our advantages, objectives, reductions and denominators (`pip install 'vlrft[trl]'`).

TRL samples, rewards, computes log-probs, accumulates and steps. This file replaces its loss.
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
from vlrft.integrations.foreign_step import ForeignStep, ScoredCompletion, foreign_step
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

# The methods of GRPOTrainer that this class depends on. Without one of them TRL would silently use its own loss.
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
    """`GRPOTrainer` that trains with one of our algorithms.

        VlrftGRPOTrainer(algorithm={"name": "gmpo", "reduction": "token"}, model=…, args=GRPOConfig(…), …)

    `algorithm` is as in a config: a name, or a mapping with a `name` and the parts that differ. All other arguments are
    GRPOTrainer's, by keyword. A mistake in either raises ConfigError before the model is loaded.

    The gradient is exact: an optimiser step is one generation batch (`steps_per_generation` equals
    `gradient_accumulation_steps`, TRL's default), every rank has all its completions before the first micro-batch, and each
    micro-batch adds its part, as in our own loop. More updates on the same completions: `num_iterations`.

    TRL still does the *sampling*, so that a keep rule drops groups but samples none in their place; holds the *reference*,
    which is loaded when the algorithm needs one (`sync_ref_model` updates it); and computes the *log-probs*, in which
    tokens that sampling suppresses are not masked out. Each reward function is a named score with its weight; a completion
    for which all of them return None is left out of the step, and so is a group with fewer others than the algorithm
    compares. Group-coupled algorithms run one more forward pass per step,
    without gradients. With vLLM, TRL's correction must be
    off; ours is `correction: {level: token}` (not tried with vLLM here).
    """

    def __init__(
        self, *, algorithm: str | Mapping[str, Any] = "grpo", args: Any, **arguments: Any
    ) -> None:
        self.algorithm: Algorithm = find_algorithm(algorithm)
        mistakes = refusals(self.algorithm, args)
        if mistakes:
            raise ConfigError(mistakes)
        self._scores: list[list[float]] = []  # of the latest completions of all ranks
        self._steps: dict[str, ForeignStep] = {}  # "train", "eval"
        args = copy.copy(args)
        if self.algorithm.needs.ref_logprobs:
            # TRL loads a reference when this is not 0.
            args.beta = self.algorithm.regularize.kl or 1.0
        super().__init__(args=args, **arguments)
        if self.aux_loss_enabled:
            raise ConfigError(["router_aux_loss_coef: our losses have no such term; set it to 0"])
        if len(set(self._names)) < len(self._names):
            raise ConfigError([f"reward_funcs: two have the same name: {', '.join(self._names)}"])

    @property
    def _names(self) -> list[str]:
        return [name.replace("/", "_") for name in self.reward_func_names]

    @property
    def _mode(self) -> str:
        return "train" if self.model.training else "eval"

    def _calculate_rewards(self, *arguments: Any) -> Tensor:
        # [completions of all ranks, functions]
        scores = cast(Tensor, super()._calculate_rewards(*arguments))
        self._scores = scores.tolist()
        return scores

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = super()._generate_and_score_completions(inputs)
        mode, ranks = self._mode, Ranks.current()
        local = self._completions(out)
        gathered = (completion for part in ranks.gather(local) for completion in part)
        completions = [
            replace(completion, scores=_by_name(self._names, scores))
            for completion, scores in zip(gathered, self._scores, strict=True)
        ]
        weights = dict(zip(self._names, self.reward_weights.tolist(), strict=True))
        size = self.num_generations if mode == "train" else self.num_generations_eval
        length = self.max_completion_length or 0
        step = self._steps[mode] = foreign_step(
            completions, size, self._algorithm_now, weights, length
        )
        first = ranks.rank * len(local)
        out["row"] = torch.arange(first, first + len(local), device=out["completion_ids"].device)
        shown = self._logs["advantages"]  # of TRL's table of completions, which keeps some of them
        for _ in range(min(len(completions), len(shown))):
            shown.pop()
        shown.extend(step.advantages)
        return out

    def _completions(self, out: Mapping[str, Any]) -> list[ScoredCompletion]:
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        ids, lengths = out["completion_ids"].tolist(), out["completion_mask"].sum(1).tolist()
        sampled = out.get("tool_mask", out["completion_mask"]).bool().tolist()
        return [
            ScoredCompletion(
                ids=tuple(row[:n]),
                sampled=tuple(flags[:n]),
                truncated=n > 0 and row[n - 1] not in ends,
                scores={},
            )
            for row, flags, n in zip(ids, sampled, lengths, strict=True)
        ]

    @property
    def _algorithm_now(self) -> Algorithm:
        """The algorithm with the numbers that its schedules have at this step."""
        return self.algorithm.at(self.state.global_step / max(self.state.max_steps, 1))

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        mode = self._mode
        algorithm = self._algorithm_now
        starts_step = mode == "eval" or self._step % self.args.gradient_accumulation_steps == 0
        if algorithm.needs.group_stats and starts_step:
            parts = [inputs] if mode == "eval" else self._buffered_inputs
            self._steps[mode] = self._with_stats(model, parts, algorithm)
        logprobs, entropy = self._score(model, inputs)
        here, rows = self._rows(self._steps[mode], inputs, logprobs, entropy, algorithm)
        if not len(here):
            return (
                logprobs.sum() * 0.0
            )  # no row of this micro-batch is trained on, but every rank runs backward
        loss, terms = algorithm.loss(logprobs[here, : rows.mask.shape[1]], rows)
        observed = dict(terms.observed) | {"entropy": entropy[here, : rows.mask.shape[1]].detach()}
        for name, values in observed.items():
            self._metrics[mode][name].append(float(values[rows.mask].mean()))
        for name, value in terms.scalars.items():
            self._metrics[mode][name].append(value)
        ranks: int = self.accelerator.num_processes
        return loss * ranks  # gradients are averaged over the ranks

    def _score(self, model: Any, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Log-probs and entropies [B T] of the completions; other inputs, such as images, are passed by name."""
        accepted = inspect.signature(self._get_per_token_logps_and_entropies).parameters
        parts = [("prompt_ids", "completion_ids"), ("prompt_mask", "completion_mask")]
        ids, mask = (torch.cat([inputs[a], inputs[b]], dim=1) for a, b in parts)
        logprobs, entropy, _ = self._get_per_token_logps_and_entropies(
            model,
            ids,
            mask,
            inputs["completion_ids"].size(1),
            compute_entropy=True,
            **{name: value for name, value in inputs.items() if name in accepted},
        )
        return logprobs, entropy

    def _rows(
        self,
        step: ForeignStep,
        inputs: Mapping[str, Any],
        logprobs: Tensor,
        entropy: Tensor,
        algorithm: Algorithm,
    ) -> tuple[Tensor, LossBatch]:
        """The indices of the micro-batch's rows that are trained on, and the loss batch of these rows."""
        indices = inputs["row"].tolist()
        pairs = [(i, step.row_of[n]) for i, n in enumerate(indices) if n in step.row_of]
        here = torch.tensor([i for i, _ in pairs], dtype=torch.long, device=logprobs.device)
        step_rows = torch.tensor([b for _, b in pairs], dtype=torch.long)
        width = min(logprobs.shape[1], step.loss.mask.shape[1])
        dtype = torch.promote_types(logprobs.dtype, torch.float32)
        rows = step.loss.rows(step_rows, width).to(logprobs.device, dtype)

        def slice_rows(name: str) -> Tensor | None:
            values = inputs.get(name)
            return None if values is None else values[here, :width].to(dtype)

        old, ref = slice_rows("old_per_token_logps"), slice_rows("ref_per_token_logps")
        if old is None:
            old = logprobs.detach()[here, :width]
        return here, replace(
            rows,
            sampled_logprobs=slice_rows("sampling_per_token_logps"),
            old_logprobs=guard(old, rows.mask, "old log-probs"),
            ref_logprobs=None if ref is None else guard(ref, rows.mask, "reference log-probs"),
            entropy=entropy[here, :width] if algorithm.needs.entropy else None,
        )

    @torch.no_grad()
    def _with_stats(
        self, model: Any, parts: Sequence[Mapping[str, Any]], algorithm: Algorithm
    ) -> ForeignStep:
        """The step with the statistics of its groups, whose rows TRL spreads over micro-batches and ranks."""
        step = self._steps[self._mode]
        scored: list[tuple[int, dict[str, Tensor]]] = []
        for part in parts:
            now, entropy = self._score(model, part)
            here, rows = self._rows(step, part, now, entropy, algorithm)
            values = {"now": now[here], "old": rows.old_logprobs, "ref": rows.ref_logprobs}
            step_rows = [step.row_of[int(n)] for n in part["row"][here]]
            for k, b in enumerate(step_rows):
                scored.append(
                    (b, {name: v[k].cpu() for name, v in values.items() if v is not None})
                )
        mask = step.loss.mask
        filled = {k: torch.zeros(mask.shape, dtype=torch.float64) for k in ("now", "old", "ref")}
        for b, row_values in (row for rank in Ranks.current().gather(scored) for row in rank):
            for name, value in row_values.items():
                width = min(len(value), mask.shape[1])
                filled[name][b, :width] = value[:width].double()
        clean = {name: guard(values, mask, f"{name} log-probs") for name, values in filled.items()}
        ref = clean["ref"] if algorithm.needs.ref_logprobs else None
        loss = replace(step.loss, old_logprobs=clean["old"], ref_logprobs=ref)
        stats = cast(GroupCoupled, algorithm.objective).group_stats(clean["now"], loss)
        return replace(step, loss=replace(step.loss, stats=stats))
