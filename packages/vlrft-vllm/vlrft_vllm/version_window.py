"""The versions of vLLM that this distribution works with: the bounds of its own requirement on `vllm`."""

from __future__ import annotations

from importlib.metadata import requires, version

from packaging.requirements import Requirement

NAME = "vlrft-vllm"
HOST = "vllm"


def refuse_other_versions() -> None:
    """Raises RuntimeError where the installed vLLM is outside the bounds."""
    bounds = find_bounds(requires(NAME) or ())
    here = version(HOST)
    if not bounds.specifier.contains(here, prereleases=True):
        raise RuntimeError(
            f"{NAME} {version(NAME)} works inside vLLM {bounds.specifier}, and this is {here}: install "
            f"'{bounds}', or the {NAME} that belongs to your vlrft"
        )


def find_bounds(requirements: list[str] | tuple[str, ...]) -> Requirement:
    """The requirement on vLLM among the requirements of a distribution. Raises ValueError where there is none."""
    for text in requirements:
        requirement = Requirement(text)
        if requirement.name == HOST:
            return requirement
    raise ValueError(f"{NAME} requires no {HOST}: {requirements}")
