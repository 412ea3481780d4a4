"""YAML text -> plain values. The text may be hostile: its length, its nesting and what its aliases expand to are limited."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml
from yaml.composer import ComposerError

MAX_CHARACTERS = 200_000  # a config has a few thousand
MAX_DEPTH = 50  # a config has about ten levels
MAX_VALUES = 20_000  # with each alias replaced by its node
MERGE = "tag:yaml.org,2002:merge"  # the key `<<`
SURROGATE = re.compile("[\ud800-\udfff]")


def parse_yaml(text: str) -> Any:
    """The values of a YAML text. A repeated key is an error and 1e-6 is a number.

    Raises ValueError, whose message is one line, for a text that is not YAML or exceeds a limit.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"more than {MAX_CHARACTERS:,} characters")
    try:
        return yaml.load(text, _Loader)  # a SafeLoader
    except yaml.YAMLError as e:
        raise ValueError(_short_error(e)) from None
    except ValueError as e:  # such as the date 2026-13-45
        raise ValueError(" ".join(str(e).split())) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError):  # such as `!!bool 3`
        raise ValueError("a value does not fit its tag") from None


def has_comment(text: str) -> bool:
    """Whether a YAML text ends with a comment, which is no part of its value."""
    ends = (yaml.StreamEndToken, yaml.BlockEndToken)
    marks = [token.end_mark.index for token in yaml.scan(text) if not isinstance(token, ends)]
    return text[max(marks, default=0) :].lstrip().startswith("#")


def flow_text(value: Any) -> str:
    """The value as YAML on one line, as it is written on a command line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("...\n").strip()


class _Loader(yaml.SafeLoader):
    """Safe YAML with limits, in which a repeated key is an error and 1e-6 is a number."""

    level = 0  # of the node that is being read

    def get_single_node(self) -> Any:
        """PyYAML's hook for a document: also measures what its aliases expand to."""
        node: Any = super().get_single_node()
        if node is not None:
            _measure(node, {}, 0)
        return node

    def compose_node(self, parent: Any, index: Any) -> Any:
        """PyYAML's hook for each node: refuses what would exhaust the stack, and text that no file or path can hold."""
        if self.level > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _error(f"more than {MAX_DEPTH} levels deep", mark)
        self.level += 1
        node: Any = super().compose_node(parent, index)
        self.level -= 1
        if isinstance(node, yaml.ScalarNode):
            if "\0" in node.value:
                raise _error("a text has a NUL character", node.start_mark)
            if SURROGATE.search(node.value):
                raise _error("a text has half of a surrogate pair", node.start_mark)
        return node


def _measure(node: Any, measured: dict[int, tuple[int, int]], level: int) -> tuple[int, int]:
    """The values in a node and its depth, with its aliases expanded; `measured`: those of nodes by id, (0, 0) for a node
    that is not complete. Raises YAMLError where they exceed a limit."""
    known = measured.get(id(node))
    if known == (0, 0):
        raise _error("a value contains itself", node.start_mark)
    if known is None:
        measured[id(node)] = (0, 0)
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        sizes = [_measure(part, measured, level + 1) for part in parts]
        known = (
            1 + sum(values for values, _ in sizes),
            1 + max((depth for _, depth in sizes), default=0),
        )
        measured[id(node)] = known
    values, depth = known
    if values > MAX_VALUES:
        raise _error(f"more than {MAX_VALUES:,} values, with aliases expanded", node.start_mark)
    if level + depth > MAX_DEPTH + 1:
        raise _error(f"more than {MAX_DEPTH} levels deep", node.start_mark)
    return known


def _error(problem: str, mark: Any) -> yaml.YAMLError:
    return ComposerError(None, None, problem, mark)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    """A section; a key that is merged by `<<: *other` may be set again."""
    seen: set[str] = set()
    for key_node, _ in node.value:
        key = None if key_node.tag == MERGE else loader.construct_object(key_node)
        if key is not None and isinstance(key, Hashable):
            if str(key) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(str(key))
    return {str(k): v for k, v in loader.construct_mapping(node, deep=True).items()}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _short_error(error: yaml.YAMLError) -> str:
    """The problem and its line, without the excerpt of the text that yaml's own message shows."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    context = f"{error.context}: " if error.context else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: {context}{error.problem}"
