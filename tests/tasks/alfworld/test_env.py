"""The environment: verl-agent's prompts, its reading of answers, rewards, scores and ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from vlrft.tasks.alfworld import engine, task
from vlrft.tasks.alfworld.env import AlfworldEnv
from vlrft.tasks.alfworld.native import release_library
from vlrft.tasks.alfworld.projection import project
from vlrft.tasks.alfworld.wording import (
    NEXT,
    PastTurn,
    PromptState,
    bare_prompt,
    released_next_prompt,
    released_prompt,
    short_prompt,
    task_of,
)

from vlrft.schema import DataError, Observation, Sample

BANNER = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou see a bed 1.\n\nYour task is to: put a pen in bed."
)
REQUEST = (
    "\n\nNow it's your turn to take an action.\n"
    "You should first reason step-by-step about the current situation. This reasoning process MUST be enclosed within "
    "<think> </think> tags. \n"
    "Once you've finished your reasoning, you should choose an admissible action for current step and present it within "
    "<action> </action> tags.\n"
)  # verl-agent, agent_system/environments/prompts/alfworld.py at d0b9724, with the space after "tags."


def state(*past: tuple[str, str], history: int = 2) -> PromptState:
    return PromptState(
        task="put a pen in bed.",
        observation="On the bed 1, you see nothing." if past else BANNER,
        admissible=("go to bed 1", "help", "look"),
        past=[PastTurn(observation=o, command=c) for o, c in past],
        history=history,
    )


def test_the_first_prompt_word_for_word() -> None:
    assert released_prompt(state()) == (
        "\nYou are an expert agent operating in the ALFRED Embodied Environment.\n"
        f"Your current observation is: {BANNER}\n"
        "Your admissible actions of the current situation are: ['go to bed 1'\n 'look']." + REQUEST
    )


def test_later_prompts_repeat_the_last_turns() -> None:
    later = state((BANNER, "a"), ("one", "b"), ("two", "c"))
    assert released_prompt(later) == (
        "\nYou are an expert agent operating in the ALFRED Embodied Environment. "
        "Your task is to: put a pen in bed.\n"
        "Prior to this step, you have already taken 3 step(s). Below are the most recent 2 "
        "observations and the corresponding actions you took: "
        "[Observation 2: 'one', Action 2: 'b']\n[Observation 3: 'two', Action 3: 'c']\n"
        "You are now at step 4 and your current observation is: On the bed 1, you see nothing.\n"
        "Your admissible actions of the current situation are: ['go to bed 1'\n 'look']." + REQUEST
    )
    assert f"most recent 1 observations and the corresponding actions you took: [Observation 1: '{BANNER}', Action 1: 'a']\n" in released_prompt(state((BANNER, "a")))  # fmt: skip


def test_without_history_every_prompt_has_the_wording_of_the_first() -> None:
    prompt = released_prompt(state(("one", "b"), history=0))
    assert prompt.startswith("\nYou are an expert agent operating in the ALFRED Embodied Environment.\nYour current")  # fmt: skip
    assert "one" not in prompt


def test_the_short_prompt_has_no_banner() -> None:
    assert short_prompt(state()) == (
        "Task: put a pen in bed.\nYou see a bed 1.\nActions:\ngo to bed 1\nlook\n"
        "Answer <think></think><action>one of them</action>"
    )
    assert "\nYou see a bed 1.\n> a\none\n> b\nOn the bed" in short_prompt(state((BANNER, "a"), ("one", "b")))  # fmt: skip


def test_the_bare_prompt_is_the_short_one_without_commands() -> None:
    assert bare_prompt(state()) == (
        "Task: put a pen in bed.\nYou see a bed 1.\nAnswer <think></think><action>a command</action>"
    )
    later = (
        "\nYou see a bed 1.\n> a\nOn the bed 1, you see nothing.\nAnswer <think></think><action>"
    )
    assert later in bare_prompt(state((BANNER, "a")))
    assert NEXT["bare"](state((BANNER, "a"))) == "On the bed 1, you see nothing."


def test_a_growing_context_gets_only_the_new_observation() -> None:
    assert released_next_prompt(state(("one", "b"))) == (
        "On the bed 1, you see nothing.\n"
        "Your admissible actions of the current situation are: ['go to bed 1'\n 'look']."
    )


def test_the_task_is_read_from_the_first_observation() -> None:
    assert task_of(BANNER) == "put a pen in bed."
    with pytest.raises(DataError, match="no task"):
        task_of("You see a bed 1.")


@pytest.mark.parametrize(
    ("text", "command", "valid"),
    [
        ("<think>so</think><action>Go to Bed 1</action>", "go to bed 1", True),
        ("<think></think>\n<action>\n look </action> and more", "look", True),
        ("<think></think><action>look</action><action>help</action>", "look", True),
        ("<think></think><action>fly</action>", "fly", True),  # well formed, not admissible
        ("<think></think><action></action>", "", True),
        ("<think></think><ACTION>look</ACTION>", "look", True),
        ("<action>look</action>", "look", False),
        ("<THINK></think><action>look</action>", "look", False),
        ("<think></think><action>look", "<think></think><action>look", False),
        ("<think>床</think><action>look</action>", "look", False),
        ("<think></think></action>look<action>", "", True),  # the published slice
        (
            "<think></think> I would go to the bed 1, then LOOK",
            "i would go to the bed 1, then look",
            False,
        ),
        ("", "", False),
    ],
)
def test_answers_are_read_as_published(text: str, command: str, valid: bool) -> None:
    action = project(text)
    assert (action.command, action.valid) == (command[-30:], valid)


def say(command: str) -> str:
    return f"<think></think><action>{command}</action>"


def open_env(sample: Sample, **info: Any) -> tuple[AlfworldEnv, Observation]:
    env = AlfworldEnv(replace(sample, info={**sample.info, **info}))
    return env, env.start()


def test_the_gold_answer_wins_and_earns_ten(sample: Sample) -> None:
    env, first = open_env(sample)
    assert isinstance(first.messages[0].content[0], str)
    steps = [env.step(text) for text in task.gold(sample)]
    env.close()
    assert [s.reward for s in steps] == [0.0] * (len(steps) - 1) + [10.0]
    assert [s.done for s in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1].scores == {
        "won": 1.0,
        "steps": float(len(steps)),
        "valid": 1.0,
        "admissible": 1.0,
    }
    assert set(steps[-1].scores) == set(task.env_scores)


def test_shares_are_of_the_turns_so_far(sample: Sample) -> None:
    env, _ = open_env(sample)
    steps = [env.step(t) for t in (say("look"), say("fly"), "look", "<action>look</action>")]
    env.close()
    assert [s.valid for s in steps] == [True, True, False, False]
    assert [s.scores["valid"] for s in steps] == [1.0, 1.0, 2 / 3, 0.5]
    assert [s.scores["admissible"] for s in steps] == [1.0, 0.5, 2 / 3, 0.75]
    assert [s.scores["won"] for s in steps] == [0.0] * 4
    assert steps[1].observation is not None
    assert steps[1].observation.shown == steps[1].observation.anchor == "Nothing happens."


@pytest.mark.parametrize(("invalid", "valid"), [("unreadable", True), ("inadmissible", False)])
def test_what_is_not_admissible_is_invalid_where_the_options_say_so(
    sample: Sample, invalid: str, valid: bool
) -> None:
    env, _ = open_env(sample, invalid=invalid)
    steps = [env.step(text) for text in (say("fly"), say("look"), "look")]
    env.close()
    assert [step.valid for step in steps] == [valid, True, False]
    assert steps[-1].scores["valid"] == pytest.approx(2 / 3)  # readable, whatever it costs


def test_an_episode_ends_at_its_limit(sample: Sample) -> None:
    env, _ = open_env(sample, max_steps=2)
    one, two = env.step(say("look")), env.step(say("look"))
    env.close()
    assert (one.done, two.done) == (False, True)
    assert (two.reward, two.scores["won"]) == (0.0, 0.0)


def test_the_anchor_is_the_raw_observation(sample: Sample) -> None:
    env, first = open_env(sample)
    second = env.step(say("inventory")).observation
    env.close()
    assert first.shown == first.anchor
    assert str(first.anchor).startswith("-= Welcome to TextWorld, ALFRED! =-")
    assert second is not None
    assert second.anchor == "You are not carrying anything."
    assert not second.follows
    assert "[Observation 1: '-= Welcome" in str(second.messages[0].content[0])


@pytest.mark.parametrize("prompt", ["released", "short"])
def test_turns_of_a_growing_context_follow(sample: Sample, prompt: str) -> None:
    env, first = open_env(sample, context="growing", prompt=prompt)
    second = env.step(say("inventory")).observation
    env.close()
    assert not first.follows
    assert second is not None
    assert second.follows
    assert str(second.messages[0].content[0]).startswith("You are not carrying anything.\n")
    assert "Observation 1" not in str(second.messages[0].content[0])


def test_an_episode_depends_on_the_answers_alone(sample: Sample) -> None:
    def play() -> list[object]:
        env, first = open_env(sample)
        results: list[object] = [
            first,
            *(env.step(say(c)) for c in ("go to bed 1", "look", "look")),
        ]
        env.close()
        return results

    assert play() == play()


@pytest.fixture
def released_libraries(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Copies of the engine's library that games have released."""
    released: list[Any] = []
    monkeypatch.setattr(engine, "release_library", released.append)
    return released


def test_closing_an_environment_that_was_never_started(
    sample: Sample, released_libraries: list[Any]
) -> None:
    AlfworldEnv(sample).close()
    assert released_libraries == []


def test_closing_twice_releases_the_library_once(
    sample: Sample, released_libraries: list[Any]
) -> None:
    """If it were released twice, two games would share it."""
    env, _ = open_env(sample)
    env.close()
    env.close()
    assert len(released_libraries) == 1
    release_library(released_libraries[0])
