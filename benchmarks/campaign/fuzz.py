"""Coverage-guided fuzzing of one reader with atheris: `python -m benchmarks.campaign.fuzz PARSER SECONDS SEED CORPUS`.

Ends with code 0, or at the first content with a problem, which it prints as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> None:
    name, seconds, seed, corpus = sys.argv[1:]
    atheris: Any = import_module("atheris")  # an optional package without types

    with atheris.instrument_imports(
        include=["vlrft.grading", "vlrft.config", "vlrft.data", "yaml"]
    ):
        from vlrft.testing.hostile_parsing import PARSERS, try_parser

    parser = PARSERS[name]
    try_parser(parser, parser.examples[0].encode())  # its imports are no content's time
    folder = Path(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    for k, text in enumerate(parser.examples):
        (folder / f"example_{k}").write_text(text)

    def test(content: bytes) -> None:
        problem = try_parser(parser, content)
        if problem:
            print(
                json.dumps({"problem": problem, "content": content.decode("latin-1")}), flush=True
            )
            os._exit(77)

    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        "-max_len=4096",
        "-timeout=20",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], corpus, *options], test)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
