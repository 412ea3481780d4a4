"""Configs that are not what people write: each is one line of a message, and none exhausts the stack or the memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlrft.config.load import load_config
from vlrft.config.yaml_text import MAX_CHARACTERS, MAX_DEPTH, parse_yaml
from vlrft.schema.errors import ConfigError

PLAIN = "task: digits\npolicy: {build: {family: qwen2_vl}}\nstages: [{steps: 1}]\n"
TOO_DEEP = f"more than {MAX_DEPTH} levels deep"
TOO_MANY = "more than 20,000 values, with aliases expanded"


def doubled(levels: int, values: int = 10) -> str:
    """A list of lists of … `values` each, by aliases: `values`^`levels` in all."""
    lines = ["a0: &a0 x"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * values)}]" for k in range(1, levels + 1)]
    return "\n".join(lines)


def merged() -> str:
    """Sections that merge a hundred others, which merge a hundred others."""
    section = ", ".join(f"k{k}: 1" for k in range(100))
    times = ", ".join(["*a"] * 100)
    return f"a: &a {{{section}}}\nb: &b {{<<: [{times}]}}\nc: {{<<: [{times.replace('*a', '*b')}]}}"


HOSTILE = {
    "brackets": ("a: " + "[" * 300, TOO_DEEP),
    "closed brackets": ("a: " + "[" * 300 + "]" * 300, TOO_DEEP),
    "braces": ("{a: " * 300, TOO_DEEP),
    "dashes": ("- " * 3000 + "x", TOO_DEEP),
    "indents": ("".join(" " * k + "a:\n" for k in range(600)), TOO_DEEP),
    "aliases of aliases": (doubled(9), TOO_MANY),
    "a chain of aliases": (doubled(100, values=1), TOO_DEEP),
    "merges of merges": (merged(), TOO_MANY),
    "a list in itself": ("a: &a [*a]", "a value contains itself"),
    "a section in itself": ("a: &a {b: *a}", "a value contains itself"),
    "thousands of digits": ("a: " + "9" * 5000, "limit (4300 digits)"),
    "a long file": ("# " + "x" * MAX_CHARACTERS, "more than 200,000 characters"),
    "a repeated key": ("a: 1\na: 2", "line 2, column 1: the key 'a' is given twice"),
    "a key as a number and as text": ("1: 1\n'1': 2", "the key '1' is given twice"),
    "a list as a key": ("? [a]\n: b", "found unhashable key"),
    "a tab": ("a:\n\tb: 1", "line 2, column 1: "),
    "a NUL": ("a: \0", "unacceptable character #x0000"),
    "an escaped NUL": ('a: "x\\0y"', "line 1, column 4: a text has a NUL character"),
    "a surrogate": ('a: "\\ud800"', "line 1, column 4: a text has half of a surrogate pair"),
    "an unknown alias": ("a: *b", "found undefined alias 'b'"),
    "Python's tags": ("a: !!python/object/apply:os.system [ls]", "could not determine"),
    "a tag on another value": ("a: !!bool 3", "a value does not fit its tag"),
    "an impossible time": ("a: !!timestamp x", "a value does not fit its tag"),
    "two documents": ("a: 1\n---\nb: 2", "expected a single document"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_line(name: str, tmp_path: Path) -> None:
    text, problem = HOSTILE[name]
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    (line,) = caught.value.mistakes
    assert line.startswith(f"{path}: not valid YAML: ")
    assert problem in line
    assert len(line.splitlines()) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_value_on_the_command_line_is_one_line(name: str, tmp_path: Path) -> None:
    text, problem = HOSTILE[name]
    path = tmp_path / "c.yaml"
    path.write_text(PLAIN)
    with pytest.raises(ConfigError) as caught:
        load_config(path, [f"task.options={text}"])
    (line,) = caught.value.mistakes
    assert line.startswith("task.options=")
    assert problem in line
    assert len(line) < 400


def test_a_path_of_thousands_of_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(PLAIN)
    with pytest.raises(ConfigError, match="a path of more than 20 keys"):
        load_config(path, [f"task.options.{'a.' * 5000}b=1"])


@pytest.mark.parametrize("data", [b"\xff\xfe\x00a", "task: dig\xe9ts".encode("latin-1")])
def test_a_file_in_another_encoding_is_one_line(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(data)
    with pytest.raises(ConfigError, match=r"c\.yaml: not valid YAML: .utf-8. codec"):
        load_config(tmp_path / "c.yaml")


def test_what_is_within_the_limits_is_read() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert str(parse_yaml(deep)) == deep
    wide = parse_yaml(f"[{', '.join(['1'] * 1000)}]")
    assert wide == [1] * 1000
    assert len(parse_yaml(doubled(3))) == 4
    assert parse_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}")["b"] == {"x": 1, "y": 3}
    assert parse_yaml("[1e-6, -1E+3, .5, 1, null, 1.0e-6]") == [1e-6, -1e3, 0.5, 1, None, 1e-6]


def test_files_that_extend_one_another_without_end_are_refused(tmp_path: Path) -> None:
    for k in range(15):
        (tmp_path / f"{k}.yaml").write_text(f"extends: {k + 1}.yaml\n")
    with pytest.raises(ConfigError, match="extends: more than 10 files extend one another"):
        load_config(tmp_path / "0.yaml")
    (tmp_path / "long.yaml").write_text(f"extends: {'a' * 300}.yaml\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "long.yaml")


def test_thousands_of_mistakes_are_the_first_fifty_and_their_number(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(PLAIN + "".join(f"k{k}: 1\n" for k in range(60)))
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.yaml")
    assert len(caught.value.mistakes) == 51
    assert caught.value.mistakes[-1].endswith("c.yaml: and 10 more mistakes")


@pytest.mark.parametrize("value", ["3", "[gpg]"])
def test_a_choice_that_is_neither_a_name_nor_a_section_is_one_line(
    tmp_path: Path, value: str
) -> None:
    (tmp_path / "c.yaml").write_text(f"{PLAIN}algorithm: {value}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.yaml")
    (line,) = caught.value.mistakes
    assert "c.yaml: algorithm: expected a name or a section of keys, got " in line
