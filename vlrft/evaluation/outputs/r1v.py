"""R1-V's result json: `{"accuracy": …, "results": [{"question": {"image_path", "question", "ground_truth"}, "ground_truth",
"model_output", "extracted_answer"}, …]}`, in the order of the prompts; the rows have no ids, so their index is the id.

Source: src/eval/test_qwen2vl_geoqa_multigpu.py, test_qwen2vl_counting_superclevr.py and src/eval/logs/ of
Deep-Agent/R1-V at bbbbe3d.
"""

from __future__ import annotations

from vlrft.data import Cells
from vlrft.evaluation.outputs.columns import OutputFormat, OutputRow, text_of
from vlrft.evaluation.outputs.stored_file import StoredFile


def recognises(file: StoredFile) -> bool:
    return "accuracy" in file.head and {"question", "model_output"} <= set(file.columns)


def read(cells: Cells, number: int) -> list[OutputRow]:
    output = text_of(cells["model_output"], "model_output")
    answer = cells.get("ground_truth")
    return [OutputRow(number=number, id=str(number), output=output, answer=answer)]


FORMAT = OutputFormat(name="R1-V's result json", recognises=recognises, read=read)
