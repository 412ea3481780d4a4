"""The grid world: rooms and splits, observations and rewards of an episode, gold answers, options, metrics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import TypeAdapter, ValidationError
from vlrft.tasks.gridworld import task
from vlrft.tasks.gridworld.env import GridWorld, draw_picture
from vlrft.tasks.gridworld.options import Options
from vlrft.tasks.gridworld.world import Room

from vlrft.cli.main import main
from vlrft.envs import InProcess
from vlrft.rollout.gold import gold_turns, walk
from vlrft.schema import IMAGE, DataError, Observation, Record, Sample

SIZES: dict[str, dict[str, Any]] = {
    "default": {},
    "wide": {"size": 5, "walls": 8, "least": 3, "max_steps": 20},
    "brief": {"max_steps": 2, "train": 60},
    "bare": {"size": 3, "walls": 0, "train": 40, "test": 8},
}
MOVES = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
WALL, GOAL, AGENT = (0x40, 0x40, 0x40), (0x2C, 0xA0, 0x2C), (0, 0, 0)


def rooms(split: str = "train", **options: Any) -> Sequence[Sample]:
    return task.load(split, Options(**options))


def first(**options: Any) -> Sample:
    return rooms(train=1, **options)[0]


def room_of(sample: Sample) -> Room:
    room: Room = sample.info["room"]
    return room


def sample_of(**cells: Any) -> Sample:
    """A sample with a room of 3 x 3 cells, laid out by the test."""
    fields: dict[str, Any] = {
        "size": 3,
        "agent": (0, 0),
        "goal": (2, 2),
        "walls": frozenset(),
        **cells,
    }
    options = fields.pop("options", Options())
    room = Room(**fields)
    path = room.shortest_path()
    assert path is not None
    sample = first()
    return Sample(
        id="gridworld/test/custom",
        messages=sample.messages,
        images=(draw_picture(room, options.cell),),
        tags={"kind": "gridworld", "distance": str(len(path))},
        info={"room": room, "options": options},
    )


def say(move: str) -> str:
    return f"<answer>{move}</answer>"


def distance(room: Room) -> float:
    """Moves to the goal, by relaxing every cell until nothing changes."""
    moves = np.full((room.size, room.size), np.inf)
    moves[room.goal] = 0
    while True:
        before = moves.copy()
        for x, y in np.ndindex(moves.shape):
            if (x, y) in room.walls:
                continue
            neighbours = [
                moves[x + dx, y + dy]
                for dx, dy in MOVES.values()
                if 0 <= x + dx < room.size and 0 <= y + dy < room.size
            ]
            moves[x, y] = min(moves[x, y], min(neighbours) + 1)
        if np.array_equal(before, moves):
            return float(moves[room.agent])


@pytest.mark.parametrize("options", SIZES.values(), ids=SIZES)
def test_rooms_are_distinct_and_none_is_in_both_splits(options: dict[str, Any]) -> None:
    small: dict[str, Any] = {"train": 400, "test": 100} | options
    train, test = rooms(**small), rooms("test", **small)
    both = [room_of(s) for s in [*train, *test]]
    assert len(set(both)) == len(both) == small["train"] + small["test"]
    assert [s.id for s in test[:2]] == ["gridworld/test/0", "gridworld/test/1"]
    assert train[-1].id == f"gridworld/train/{small['train'] - 1}"
    with pytest.raises(IndexError):
        train[small["train"]]
    all_options = Options(**small)
    for room in both:
        cells = {room.agent, room.goal, *room.walls}
        assert len(cells) == 2 + all_options.walls
        assert {v for cell in cells for v in cell} <= set(range(all_options.size))


def test_a_larger_split_starts_with_the_same_rooms() -> None:
    few, many, again = rooms(train=30), rooms(train=60), rooms(train=60)
    for a, b, c in zip(few, many, again, strict=False):
        assert room_of(a) == room_of(b) == room_of(c)
        assert a.tags == c.tags
        assert a.images[0].tobytes() == c.images[0].tobytes()


@pytest.mark.parametrize("options", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("split", task.splits)
def test_the_gold_answer_wins_in_the_fewest_moves(split: str, options: dict[str, Any]) -> None:
    host = InProcess(GridWorld)
    sizes = {"train": 40, "test": 20} | options
    for sample in rooms(split, **sizes):
        moves = gold_turns(task, sample)
        observations, scores = walk(sample, moves, host)
        fewest = distance(room_of(sample))
        assert len(moves) == len(observations) == fewest == int(sample.tags["distance"])
        assert fewest >= Options(**sizes).least
        assert scores == {"won": 1.0, "steps": fewest, "valid": 1.0, "directness": 1.0}


def play(sample: Sample, texts: Sequence[str]) -> list[Room]:
    """The room at the start and after each text, from the anchors."""
    env = GridWorld(sample)
    states: list[Room] = [env.start().anchor]  # type: ignore[list-item]
    for text in texts:
        step = env.step(text)
        assert step.observation is not None
        states.append(step.observation.anchor)  # type: ignore[arg-type]
    return states


def test_moves_stop_at_walls_and_edges() -> None:
    sample = sample_of(agent=(1, 1), walls=frozenset({(2, 1)}))
    texts = [say(move) for move in ("right", "up", "up", "left", "LEFT ")]
    positions = [room.agent for room in play(sample, texts)]
    assert positions == [(1, 1), (1, 1), (1, 0), (1, 0), (0, 0), (0, 0)]


@pytest.mark.parametrize(
    "text", ["", "up", say(""), say("north"), say("up down"), say("up") + say("down"), "<answer>up"]
)
def test_an_answer_that_is_no_move_is_invalid_and_changes_nothing(text: str) -> None:
    env = GridWorld(sample_of(agent=(1, 1)))
    env.start()
    step = env.step(text)
    assert not step.valid
    assert step.observation is not None
    assert step.observation.anchor == env.room == room_of(sample_of(agent=(1, 1)))
    assert step.scores == {"won": 0.0, "steps": 1.0, "valid": 0.0, "directness": 0.0}
    assert env.step(say("up")).scores["valid"] == 0.5


def test_a_path_that_is_not_the_shortest_wins_with_less_directness() -> None:
    env = GridWorld(sample_of(agent=(0, 0), goal=(1, 0)))
    env.start()
    steps = [env.step(say(move)) for move in ("down", "right", "up")]
    assert [s.reward for s in steps] == [0.0, 0.0, 1.0]
    assert [s.done for s in steps] == [False, False, True]
    assert steps[-1].scores == {"won": 1.0, "steps": 3.0, "valid": 1.0, "directness": 1 / 3}


def test_an_episode_ends_after_its_last_turn() -> None:
    env = GridWorld(sample_of(options=Options(max_steps=2)))
    env.start()
    assert not env.step("?").done
    last = env.step("?")
    assert last.done
    assert (last.reward, last.scores["won"]) == (0.0, 0.0)


def test_the_picture_is_centred_on_the_agent_and_shows_goal_and_walls() -> None:
    for sample in rooms(train=60, size=4, cell=20):
        room, image = room_of(sample), sample.images[0]
        assert image.size == (140, 140)
        assert image.mode == "RGB"
        pixels = np.asarray(image)

        def middle(dx: int, dy: int, of: np.ndarray = pixels) -> tuple[int, ...]:
            return tuple(of[70 + 20 * dy, 70 + 20 * dx])

        (x, y), (gx, gy) = room.agent, room.goal
        assert middle(0, 0) == AGENT
        assert middle(gx - x, gy - y) == GOAL
        for dx in range(-3, 4):
            for dy in range(-3, 4):
                blocked = not room.is_free((x + dx, y + dy))
                assert (middle(dx, dy) == WALL) == blocked


def test_the_picture_moves_with_the_agent() -> None:
    env = GridWorld(sample_of(agent=(1, 1), goal=(2, 2)))
    before = env.start().images[0]
    step = env.step(say("right"))
    assert step.observation is not None
    (after,) = step.observation.images
    goal = [
        tuple(np.asarray(i)[2 * 28 + 14 + 28, x * 28 + 14]) for i, x in ((before, 3), (after, 2))
    ]
    assert goal == [GOAL, GOAL]
    assert after.tobytes() == draw_picture(env.room, 28).tobytes() != before.tobytes()


@pytest.mark.parametrize("context", ["rebuilt", "growing"])
def test_every_turn_has_the_same_question_and_follows_in_a_growing_context(context: str) -> None:
    env = GridWorld(sample_of(options=Options(context=context)))  # type: ignore[arg-type]
    start = env.start()
    later = env.step(say("right")).observation
    assert isinstance(later, Observation)
    assert start.messages == later.messages == first().messages
    ((picture, question),) = (message.content for message in start.messages)
    assert picture is IMAGE
    assert isinstance(question, str)
    assert "<answer>" in question
    assert (start.follows, later.follows) == (False, context == "growing")
    assert (start.shown, later.shown) == ("<image>", "<image>")


def test_episodes_that_reach_the_same_room_have_the_same_anchor() -> None:
    sample = sample_of(agent=(1, 1))
    one = play(sample, [say("up"), say("left")])
    other = play(sample, [say("left"), say("?"), say("up")])
    assert one[-1] == other[-1]
    assert hash(one[-1]) == hash(other[-1])
    assert one[1] != other[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "colour"),
        ({"size": 1}, r"size\n  out of range; allowed: at least 2"),
        ({"walls": -1}, r"walls\n  out of range; allowed: at least 0"),
        ({"cell": 4}, r"cell\n  out of range; allowed: at least 8"),
        ({"max_steps": 0}, r"max_steps\n  out of range; allowed: at least 1"),
        ({"walls": 3}, "3 walls leave no room to move in 3 x 3 cells"),
        ({"least": 4}, "least: 4 moves, more than the size 3"),
        ({"least": 3, "max_steps": 2}, "least: 3 moves, more than max_steps 2"),
        ({"context": "grown"}, "rebuilt"),
    ],
)
def test_options_that_make_no_rooms_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(task.options).validate_python(options)


def test_the_error_for_too_few_rooms_says_how_many_there_are() -> None:
    with pytest.raises(
        DataError,
        match=r"20 rooms were requested, but there are about 12 of 2 x 2 cells with 0 walls, 1 to 6 moves",
    ):
        rooms(size=2, walls=0, train=20)


def test_metrics_of_episodes() -> None:
    def record(name: str, distance: int, won: float, **scores: float) -> Record:
        tags = {"kind": "gridworld", "distance": str(distance)}
        return Record(id=name, output="", grades={"strict": won}, tags=tags, scores=scores)

    assert task.metrics is not None
    metrics = task.metrics(
        [
            record("b", 10, 0.0, steps=6.0, valid=0.5, directness=0.0),
            record("b", 10, 0.0, steps=6.0, valid=0.0, directness=0.0),
            record("a", 2, 1.0, steps=2.0, valid=1.0, directness=1.0),
            record("a", 2, 0.0, steps=6.0, valid=1.0, directness=0.0),
        ],
        "strict",
    )
    assert list(metrics) == [
        "success",
        "success at 2",
        "success at 10",
        "steps",
        "valid",
        "directness",
    ]
    assert sorted(metrics["success"].values) == [0.0, 0.5]
    assert metrics["success at 2"].values == (0.5,)
    assert metrics["steps"].values == (6.0, 4.0)
    assert not metrics["steps"].share
    assert metrics["valid"].values == (0.25, 1.0)


def test_check_plays_the_gold_answers_and_shows_the_prompt(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["check", "gridworld", "--limit", "3", "options.train=8", "options.test=4"]) == 0
    output = capsys.readouterr().out
    assert "train: 3 of 3 gold answers earn full marks" in output
    assert "test: 3 of 3 gold answers earn full marks" in output
    assert "Which way to the green square?" in output
    assert "140 × 140" in output
    assert "gold: <answer>" in output


def test_a_gold_answer_that_does_not_win_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlrft.tasks.gridworld.world.Room.shortest_path", lambda room: ("up",))
    assert main(["check", "gridworld", "--limit", "2", "--split", "test", "options.test=4"]) == 1
    output = capsys.readouterr()
    assert "gold answers earn full marks" in output.out
    assert re.search("sample gridworld/test/0: the gold episode .* earns 0", output.err)


def test_stored_outputs_cannot_be_graded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "outputs.jsonl"
    path.write_text('{"id": "gridworld/test/0", "output": "<answer>up</answer>"}\n')
    assert main(["score", "gridworld", "--predictions", str(path)]) == 1
    output = capsys.readouterr().err
    assert (
        "sample gridworld/test/0 is graded by the environment's score 'won', which a stored output does not have; use vlrft eval"
    ) in output


def test_pictures_are_drawn_on_access(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Room] = []

    def record_room(room: Room, cell: int) -> Image.Image:
        drawn.append(room)
        return Image.new("RGB", (cell, cell))

    monkeypatch.setattr("vlrft.tasks.gridworld.draw_picture", record_room)
    samples = rooms(train=20)
    few = samples[3:5]
    assert drawn == []
    assert len(list(few)) == len(drawn) == 2
