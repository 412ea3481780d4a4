"""The versions of vLLM whose routes this engine calls."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from vlrft.schema.errors import ConfigError
from vlrft.schema.short_message import short_message

WINDOW = SpecifierSet(">=0.32,<0.33")  # as packages/vlrft-vllm/pyproject.toml
PLUGIN = "vlrft-vllm"
ASK_SECONDS = 10.0
SECONDS = 60.0  # for Python to start and read the metadata
READ = """
from importlib.metadata import PackageNotFoundError, version
for name in ("vllm", "vlrft-vllm"):
    try:
        print(version(name))
    except PackageNotFoundError:
        print("")
"""


def is_supported(version: str) -> bool:
    """Whether the window contains a version, whatever it was built for."""
    try:
        return WINDOW.contains(Version(version).public, prereleases=True)
    except InvalidVersion:
        return False


def ask_version(url: str) -> str:
    """The version of the server at an address. Raises ConfigError where it does not answer, or is not supported."""
    import httpx

    try:
        answer = httpx.get(f"{url.rstrip('/')}/version", timeout=ASK_SECONDS, trust_env=False)
        version = str(answer.raise_for_status().json()["version"])
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as e:
        raise ConfigError(
            [f"rollout.engine.urls: {url} does not say its version ({short_message(e)})"]
        ) from None
    if not is_supported(version):
        raise ConfigError([f"rollout.engine.urls: {url} has vLLM {version}, supported is {WINDOW}"])
    return version


def require_installation(python: str | None) -> str:
    """The version of vLLM in the environment of that Python; None: this one. Raises ConfigError where there is no supported vLLM, or
    not the part of vlrft that works inside it."""
    vllm, plugin = _read_versions(python or sys.executable)
    key, how = (
        "rollout.engine.python",
        "`make vllm` makes an environment with both: docs/howto/vllm.md",
    )
    where = python or f"{sys.executable} (vlrft's own)"
    if not vllm:
        raise ConfigError([f"{key}: {where} has no vLLM; {how}"])
    if not is_supported(vllm):
        raise ConfigError([f"{key}: {where} has vLLM {vllm}, supported is {WINDOW}; {how}"])
    if not plugin:
        raise ConfigError(
            [
                f"{key}: {where} has vLLM {vllm}, but not {PLUGIN}, the part of vlrft inside it; {how}"
            ]
        )
    return vllm


@cache
def _read_versions(python: str) -> tuple[str, str]:
    """The versions of vLLM and of the plug-in in the environment of a Python; empty where there is none."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", READ], capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as e:
        raise ConfigError([f"rollout.engine.python: {python} does not run ({e})"]) from None
    vllm, plugin = [*done.stdout.splitlines(), "", ""][:2]
    return vllm, plugin
