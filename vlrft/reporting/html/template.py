"""The templates of the pages, each compiled once in a process."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


@cache
def load_template(name: str) -> Template:
    """A template of this folder. What is put in is escaped, and a name that it is not given is an error."""
    pages = Environment(
        loader=PackageLoader("vlrft.reporting.html"), autoescape=True, undefined=StrictUndefined
    )
    return pages.get_template(name)
