"""Kill -9 of a real server of vLLM while weights go over, by file and by broadcast: when it is noticed, and what follows.

    make vllm
    python -m benchmarks.vllm_check.kills [--python .venv-vllm/bin/python] [--cases CASE …] [--out runs/vllm_kills] [--write]

In each case a small Qwen2-VL is changed and sent to a server, which gets the signal while it loads: its API process, or the process
of its engine, by SIGKILL; or all of it SIGSTOP, so that it hangs. Shown are the seconds until the run said so and until the server had
the weights, what was said, and the largest gap of a log-prob to the trainer's afterwards. Every case is written at once, to
kills.jsonl; one that is there is not repeated. `--write` writes the page of all cases to benchmarks/results/vllm_kills.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.vllm_check.gaps import gaps
from benchmarks.vllm_check.kills_page import write_page
from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.load import load_policy
from vlrft.rollout.engines.types import EnginePlace
from vlrft.rollout.engines.vllm.engine import VllmEngine
from vlrft.rollout.engines.vllm.kind import Vllm
from vlrft.workers.memory import descendants

ROOT = Path(__file__).parents[2]
GONE_SECONDS = 15.0  # for the processes of a server that is ended
HANG_SECONDS = 30.0  # rollout.engine.update_seconds of the case that hangs


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A signal to a server in an update."""

    transfer: str
    victim: str  # api, engine or all
    number: signal.Signals = signal.SIGKILL

    @property
    def name(self) -> str:
        return f"{self.transfer}_{self.victim}_{self.number.name.lower()}"


CASES = {
    kill.name: kill
    for kill in (
        Kill(transfer="file", victim="api"),
        Kill(transfer="file", victim="engine"),
        Kill(transfer="broadcast", victim="api"),
        Kill(transfer="broadcast", victim="engine"),
        Kill(transfer="broadcast", victim="all", number=signal.SIGSTOP),
    )
}


def processes(engine: VllmEngine) -> list[int]:
    """Of the server: its API process first, then those that this one has started."""
    assert engine.connection is not None
    assert engine.connection.supervisor is not None
    (keeper,) = engine.connection.supervisor.processes.values()
    return descendants(keeper.pid)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def strike(engine: VllmEngine, kill: Kill) -> None:
    """Sends the signal."""
    api, *others = processes(engine)
    named = {p: Path(f"/proc/{p}/cmdline").read_bytes().decode(errors="replace") for p in others}
    cores = [pid for pid, command in named.items() if "EngineCore" in command]
    victims = {"api": [api], "engine": cores, "all": [api, *others]}[kill.victim]
    if not victims:
        raise RuntimeError(f"no process of the server is its {kill.victim}: {named}")
    for pid in victims:
        os.kill(pid, kill.number)


def strike_in_update(engine: VllmEngine, kill: Kill, struck: Callable[[], None]) -> None:
    """Sends the signal once: when a broadcast has sent half of its tensors, or when a file is about to be loaded."""
    (server,) = engine.servers
    open_case = [kill]

    def once() -> None:
        if open_case:
            strike(engine, open_case.pop())
            struck()

    if kill.transfer == "file":
        post = server.post

        async def posting(path: str, seconds: float, body: Any = None, **query: str) -> Any:
            if path == "/update_weights":
                once()
            return await post(path, seconds, body, **query)

        server.post = posting  # type: ignore[method-assign]
        return
    group = server.group
    assert group is not None
    send = group.send

    def sending(tensors: Any) -> None:
        every = list(tensors)
        send(every[: len(every) // 2])
        once()
        send(every[len(every) // 2 :])

    group.send = sending  # type: ignore[method-assign]


def run(kill: Kill, python: str, folder: Path) -> dict[str, Any]:
    """The outcome."""
    folder.mkdir(parents=True, exist_ok=True)
    build = BuildConfig(family="qwen2_vl", init_scale=4.0)
    policy = load_policy(PolicyConfig(build=build), corpus=["How many?"], seed=0)
    policy.model.eval()
    times: dict[str, float] = {}
    said: list[tuple[float, str]] = []
    place = EnginePlace(
        folder=folder, say=lambda line: said.append((time.monotonic(), line)), context=512
    )
    limits = {"update_seconds": HANG_SECONDS} if kill.number is signal.SIGSTOP else {}
    kind = Vllm(python=python, transfer=kill.transfer, **limits)  # type: ignore[arg-type]
    engine = kind.build_at(policy, place)
    assert isinstance(engine, VllmEngine)
    try:
        engine.load_weights(policy.weights(), 0)
        with torch.no_grad():
            for parameter in policy.model.parameters():
                parameter.mul_(1.1)
        strike_in_update(engine, kill, lambda: times.update(struck=time.monotonic()))
        engine.load_weights(policy.weights(), 1)
        back = time.monotonic()
        gap = max(gaps(policy, engine))
        left = processes(engine)
    finally:
        engine.close()
    end = time.monotonic() + GONE_SECONDS
    while time.monotonic() < end and any(map(is_there, left)):
        time.sleep(0.1)
    return {
        "case": kill.name,
        "noticed_after": said[0][0] - times["struck"],
        "weights_after": back - times["struck"],
        "said": [line for _, line in said],
        "gap": gap,
        "left_running": [pid for pid in left if is_there(pid)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=str(ROOT / ".venv-vllm" / "bin" / "python"))
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--out", type=Path, default=Path("runs/vllm_kills"))
    parser.add_argument("--write", action="store_true", help="write the page of all cases")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "kills.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    done = {row["case"]: row for row in map(json.loads, lines)}
    for name in arguments.cases:
        if name not in done:
            done[name] = run(CASES[name], arguments.python, arguments.out / name)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done[name]) + "\n")
        row = done[name]
        print(
            f"{name}: noticed after {row['noticed_after']:.1f} s, weights there after {row['weights_after']:.0f} s, gap {row['gap']:.1e}"
            f", left running: {len(row['left_running'])}\n  " + "\n  ".join(row["said"]),
            flush=True,
        )
    if arguments.write:
        missing = [name for name in CASES if name not in done]
        if missing:
            parser.error(f"--write: {', '.join(missing)} not run yet; leave --cases out")
        page = write_page([done[name] for name in CASES], HANG_SECONDS)
        (ROOT / "benchmarks/results/vllm_kills.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main()
