"""Prompts from observations: those of verl-agent, word for word (commit d0b9724), and short and bare ones for small models.

agent_system/environments/prompts/alfworld.py, env_manager.py (build_text_obs), memory/memory.py (fetch). `released_next`,
the short and the bare ones are our own: verl-agent has no growing context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlrft.data import read_prompt
from vlrft.schema import DataError

TASK = "Your task is to: "


@dataclass(frozen=True, kw_only=True)
class PastTurn:
    """An observation, and the command that followed it."""

    observation: str
    command: str


@dataclass(frozen=True, kw_only=True)
class PromptState:
    """Everything that a prompt may contain."""

    task: str
    observation: str
    admissible: Sequence[str]
    past: Sequence[PastTurn]  # of the whole episode
    history: int  # number of past turns to repeat


def task_of(observation: str) -> str:
    """The goal at the end of a first observation. Raises DataError if there is none."""
    _, mark, task = observation.partition(TASK)
    if not mark:
        raise DataError(f"no task in the first observation: {observation[:60]!r}…")
    return task.strip()


def released_prompt(state: PromptState) -> str:
    """The complete prompt of a turn, with the wording of the first turn if no past turn is repeated."""
    actions = "\n ".join(f"'{a}'" for a in _offered_commands(state))
    recent = _recent_turns(state)
    if not recent:
        return read_prompt(__file__, "released_first").format(
            current_observation=state.observation, admissible_actions=actions
        )
    first = len(state.past) - len(recent) + 1
    lines = [
        f"[Observation {n}: '{p.observation}', Action {n}: '{p.command}']"
        for n, p in enumerate(recent, first)
    ]
    return read_prompt(__file__, "released_later").format(
        task_description=state.task,
        step_count=len(state.past),
        history_length=len(recent),
        action_history="\n".join(lines),
        current_step=len(state.past) + 1,
        current_observation=state.observation,
        admissible_actions=actions,
    )


def short_prompt(state: PromptState) -> str:
    """The same information in few tokens, without the banner."""
    return _brief_prompt(state, "short")


def bare_prompt(state: PromptState) -> str:
    """The short prompt without the admissible commands, which the policy has to word itself."""
    return _brief_prompt(state, "bare")


def _brief_prompt(state: PromptState, name: str) -> str:
    recent = [f"{plain(p.observation)}\n> {p.command}" for p in _recent_turns(state)]
    return read_prompt(__file__, f"{name}_{'later' if recent else 'first'}").format(
        task_description=state.task,
        action_history="\n".join(recent),
        current_observation=plain(state.observation),
        admissible_actions="\n".join(_offered_commands(state)),
    )


def released_next_prompt(state: PromptState) -> str:
    """The message after the policy's last answer in a growing conversation."""
    actions = "\n ".join(f"'{a}'" for a in _offered_commands(state))
    return read_prompt(__file__, "released_next").format(
        current_observation=state.observation, admissible_actions=actions
    )


def short_next_prompt(state: PromptState) -> str:
    return read_prompt(__file__, "short_next").format(
        current_observation=plain(state.observation),
        admissible_actions="\n".join(_offered_commands(state)),
    )


def bare_next_prompt(state: PromptState) -> str:
    return plain(state.observation)


def plain(observation: str) -> str:
    """An observation without TextWorld's banner and the task."""
    lines = observation.partition(TASK)[0].split("\n")
    return "\n".join(line for line in lines if line and not line.startswith("-="))


WHOLE = {"released": released_prompt, "short": short_prompt, "bare": bare_prompt}
NEXT = {"released": released_next_prompt, "short": short_next_prompt, "bare": bare_next_prompt}


def _offered_commands(state: PromptState) -> list[str]:
    return [a for a in state.admissible if a != "help"]


def _recent_turns(state: PromptState) -> Sequence[PastTurn]:
    return state.past[-state.history :] if state.history > 0 else ()
