"""Gold answers as rollouts of groups that were played: after the group's prompt, scored by the task's rewards."""

from __future__ import annotations

from collections.abc import Sequence

from vlrft.policy.chat import Chat
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import LoadedTask
from vlrft.schema import Group, Piece, Rollout, TrainingRow
from vlrft.scoring.rewards import score_groups
from vlrft.selection.injection import InjectGold


def inject_gold(
    rule: InjectGold,
    groups: Sequence[Group],
    loaded: LoadedTask,
    chat: Chat,
    progress: float = 1.0,
) -> list[Group]:
    """The groups, those that the rule wants with the gold answer. For tasks without an environment. `progress`: see `score_groups`.

    Raises DataError for an unreadable gold answer, RewardError as for any rollout.
    """
    wanted = [k for k, group in enumerate(groups) if group.rollouts and rule.wants(group)]
    golds = [[_gold_rollout(groups[k], loaded, chat)] for k in wanted]
    paid = score_groups(golds, loaded.rewards, progress)
    scored = {k: one for k, (one,) in zip(wanted, paid, strict=True)}
    return [rule.add(g, scored[k]) if k in scored else g for k, g in enumerate(groups)]


def _gold_rollout(group: Group, loaded: LoadedTask, chat: Chat) -> Rollout:
    """The gold answer after the prompt of the group, not scored yet."""
    first = group.rollouts[0]
    text = gold_text(loaded.task, group.sample)
    piece = Piece(ids=chat.answer_ids(text, name=group.sample.id), text=text, finish="stop")
    row = TrainingRow(prompt=first.rows[0].prompt, pieces=(piece,))
    return Rollout(
        sample=first.sample, rows=(row,), policy_step=first.policy_step, origin="injected"
    )
