"""A game as an environment: verl-agent's protocol (commit d0b9724), 10 for the winning turn and 0 for the others."""

from __future__ import annotations

from vlrft.schema import Message, Observation, Sample, Step

from .engine import Game, GameOutput
from .projection import project
from .renaming import renaming_of
from .wording import NEXT, WHOLE, PastTurn, PromptState, task_of

WON = 10.0


class AlfworldEnv:
    """One episode of a sample's game. Raises DataError for a damaged file, ImportError without the engine."""

    def __init__(self, sample: Sample) -> None:
        self.info = sample.info
        self.game = Game(sample.info["game"])
        self.names = renaming_of(sample.id, sample.info["copy"])
        self.past: list[PastTurn] = []
        self.valid = 0  # turns with a readable action
        self.admissible = 0  # turns with an admissible action

    def start(self) -> Observation:
        self.output = self.names.output(self.game.start())
        self.task = task_of(self.output.text)
        return self._observation(follows=False)

    def step(self, text: str) -> Step:
        action = project(text)
        admissible = action.command in self.output.admissible
        self.valid += action.valid
        self.admissible += admissible
        self.past.append(PastTurn(observation=self.output.text, command=action.command))
        self.output = self.names.output(self.game.act(self.names.inverse.text(action.command)))
        over = self.output.done or len(self.past) >= self.info["max_steps"]
        return Step(
            observation=None if over else self._observation(self.info["context"] == "growing"),
            reward=WON * self.output.won,
            scores=self._scores(self.output),
            valid=action.valid and (admissible or self.info["invalid"] == "unreadable"),
        )

    def close(self) -> None:
        self.game.close()

    def _observation(self, follows: bool) -> Observation:
        output = self.output
        state = PromptState(
            task=self.task,
            observation=output.text,
            admissible=output.admissible,
            past=self.past,
            history=self.info["history"],
        )
        text = (NEXT if follows else WHOLE)[self.info["prompt"]](state)
        return Observation(
            messages=(Message(role="user", content=(text,)),),
            follows=follows,
            shown=output.text,
            anchor=output.text,
        )

    def _scores(self, output: GameOutput) -> dict[str, float]:
        turns = len(self.past)
        return {
            "won": float(output.won),
            "steps": float(turns),
            "valid": self.valid / turns,
            "admissible": self.admissible / turns,
        }
