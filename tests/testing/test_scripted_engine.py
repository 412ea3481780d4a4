"""The rollout engine that answers from a function."""

from __future__ import annotations

from tests.conftest import Tiny
from vlrft.rollout.engines import Request, Sampling
from vlrft.testing.scripted_engine import ScriptedEngine
from vlrft.testing.small_policies import ask


def test_answers_are_those_of_the_function_in_the_ids_of_the_chat(tiny: Tiny) -> None:
    chat = tiny("qwen2").chat
    engine = ScriptedEngine(chat, lambda request, seed: f"{request.id} {seed}")
    request = Request(id="a", prompt=chat.render(ask("?")), seeds=(1, 2))
    ((one, two),) = engine.generate([request], Sampling(max_tokens=20))
    assert (one.text, two.text) == ("a 1", "a 2")
    assert one.ids == chat.answer_ids("a 1")
    assert one.finish == "stop"
    assert len(one.logprobs) == len(one.ids)


def test_limits_and_stop_strings_hold(tiny: Tiny) -> None:
    chat = tiny("qwen2").chat
    engine = ScriptedEngine(chat, lambda request, seed: "12345")
    request = Request(id="a", prompt=chat.render(ask("?")), seeds=(0,))
    ((short,),) = engine.generate([request], Sampling(max_tokens=3))
    assert (short.text, short.finish) == ("123", "length")
    ((stopped,),) = engine.generate([request], Sampling(max_tokens=9, stop=("4",)))
    assert (stopped.text, stopped.finish) == ("123", "stop")
