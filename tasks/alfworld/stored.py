"""Translations of generated games, stored beside their files, so that a game starts without its slowest part."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from .native import versions
from .translation import CACHED, Problem, translate

FILE = "translation.json.gz"


def pack(problem: Problem, domain: str, text: str) -> bytes:
    """The content of FILE for a game with this domain and this PDDL problem."""
    content = {
        "of": _fingerprint(domain, text),
        "sas": problem.sas.decode(),
        "facts": [[f.name, [[v.name, v.type] for v in f.arguments]] for f in problem.facts],
        "kinds": dict(problem.kinds),
        "parameters": {name: list(pairs) for name, pairs in problem.parameters.items()},
        "types": problem.types,
    }
    return gzip.compress(json.dumps(content).encode(), compresslevel=6, mtime=0)


@lru_cache(maxsize=CACHED)
def find_translation(file: Path, domain: str, problem: str) -> Problem:
    """The translation stored in `file`, or a new one."""
    return unpack(file, domain, problem) or translate(domain, problem)


def unpack(file: Path, domain: str, text: str) -> Problem | None:
    """The stored translation; None without the file, for a damaged one, and for one of another problem or another translator."""
    try:
        return unpack_bytes(file.read_bytes(), domain, text)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError):
        return None


def unpack_bytes(content: bytes, domain: str, text: str) -> Problem | None:
    """The translation that `pack` made; None if it is of another problem, or by another translator."""
    fields = json.loads(gzip.decompress(content))
    return _problem(fields) if fields["of"] == _fingerprint(domain, text) else None


def _problem(content: dict[str, Any]) -> Problem:
    from textworld.logic import Proposition, Variable

    return Problem(
        sas=content["sas"].encode(),
        facts=tuple(
            Proposition(name, [Variable(*pair) for pair in pairs])
            for name, pairs in content["facts"]
        ),
        kinds=content["kinds"],
        parameters={n: tuple((p, kind) for p, kind in v) for n, v in content["parameters"].items()},
        types=tuple((name, tuple(above)) for name, above in content["types"]),
    )


def _fingerprint(domain: str, text: str) -> str:
    parts = (translator_version(), domain, text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def translator_version() -> str:
    """The version of the package that translates."""
    return versions()["fast-downward-textworld"]
