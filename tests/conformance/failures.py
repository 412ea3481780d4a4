"""The checks of the suites that plugin authors inherit, called one by one."""

from __future__ import annotations

from traceback import extract_tb


def check_names(suite: type) -> list[str]:
    return sorted(name for name in dir(suite) if name.startswith("test_"))


def failure_of(suite: object, check: str) -> str | None:
    """The place and the message of a check that fails; None for one that passes. Any other exception than AssertionError is
    raised."""
    try:
        getattr(suite, check)()
    except AssertionError as e:
        place = extract_tb(e.__traceback__)[-1]
        return f"{place.filename}:{place.lineno}: {place.line}: {e}"
    return None
