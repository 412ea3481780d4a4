"""Text mathematics: `raw/NAME/SPLIT`, each set with the columns it has on the hub; `flat/NAME.jsonl`, the plain form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.data.makers._tables import write_jsonl, write_parquet

GSM8K = "Natalia sold clips to {} of her friends, and half as many in May. How many in all?"
DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form "
    "Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n{}\n\n"
    'Remember to put your answer on its own line after "Answer:".'
)


def make(folder: Path) -> None:
    for name, rows in _sets().items():
        write_parquet(folder / "raw" / f"{name}.parquet", rows)
    plain = [{"problem": f"What is {k} + {k}?", "answer": str(2 * k)} for k in range(40)]
    write_jsonl(folder / "flat/gsm8k.jsonl", plain)
    write_jsonl(folder / "flat/asdiv.jsonl", [*plain, plain[3]])
    write_jsonl(folder / "flat/amc_83.jsonl", [{"problem": "Find m + n.", "answer": 142.0}])
    several = {"problem": "Solve it.", "answer": ["$x=-1$", "$x=2$"]}
    write_jsonl(folder / "flat/olympiadbench_675.jsonl", [several, {"problem": "?", "answer": []}])


def _sets() -> Mapping[str, list[Mapping[str, Any]]]:
    """`NAME/SPLIT` -> rows in the columns of the original."""
    return {
        "gsm8k/train": [_gsm8k(k) for k in (48, 2000)],
        "gsm8k/test": [_gsm8k(12)],
        "math/train": [_math(k, f"Level {k}") for k in (1, 3, 5)],
        "math/test": [_math(7, "Level 4"), _math(8, "Level ?")],
        "math12k/train": [{"problem": "Find $x$ if $2x = 7$.", "answer": "\\frac{7}{2}"}],
        "math_lvl3to5/train": [
            {"question": "How many primes are below 10?", "gt_answer": "4", "level": 3, "subject": "Algebra"}
        ],
        "open_s1/train": [{"problem": "Find the area.", "solution": "It is $\\boxed{2\\sqrt{3}}$."}],
        "open_rs/train": [
            {"problem": "Find the sum.", "solution": "So $\\boxed{10}$.", "answer": "10", "level": "Hard"},
            {"problem": "Find the lost one.", "solution": "No box.", "answer": None, "level": "Hard"},
        ],
        "dapo17k/train": [_dapo(k % 2) for k in range(6)],
        "deepscaler/train": [{"problem": "Find $n$.", "answer": "-\\frac{2}{3}", "solution": "…"}],
        "countdown/train": [{"target": 98, "nums": [44, 19, 35]}, {"target": 7, "nums": [1, 1, 2]}],
        "countdown/test": [{"target": 64, "nums": [63, 95, 96]}],
        "aime24/test": [{"id": 60, "problem": "Find $s$.", "solution": "…", "answer": "204", "year": "2024"}],
        "amc23_40/test": [{"problem": "Find $p$.", "answer": "27.0"}],
        "math500/test": [
            {"problem": "Convert $(0,3)$.", "solution": "…", "answer": "\\left( 3, \\frac{\\pi}{2} \\right)",
             "subject": "Precalculus", "level": 2, "unique_id": "test/precalculus/807.json"}
        ],
        "minerva/test": [{"problem": "Estimate it.", "solution": "It is $\\boxed{9.6}$ Angstroms."}],
        "olympiadbench/test": [{"question": "Solve it.", "answer": "$2$,$3$"}],
    }  # fmt: skip


def _gsm8k(clips: int) -> dict[str, Any]:
    total = clips + clips // 2
    text = f"In May {clips}/2 = <<{clips}/2={clips // 2}>>{clips // 2}.\nTogether <<…>>{total}.\n#### {total:,}"
    return {"question": GSM8K.format(clips), "answer": text}


def _math(k: int, level: str) -> dict[str, Any]:
    solution = f"First \\boxed{{0}} is wrong; the answer is $\\boxed{{\\frac{{{k}}}{{2}}}}$."
    return {
        "problem": f"What is half of {k}?",
        "level": level,
        "type": "Algebra",
        "solution": solution,
    }


def _dapo(k: int) -> dict[str, Any]:
    """Every problem of the original stands there a hundred times."""
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": DAPO.format(f"Find the least $n$ above {k}."), "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": str(k + 1), "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": f"{k}"},
    }
