"""The question of each grader in the trial with hostile answers: a gold answer, and texts that alone can be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vlrft.schema import Sample

BOX = (
    417,
    283,
    423,
    289,
)  # so small that no box of the hostile texts reaches an IoU of a hundredth
IN_PICTURE = {"box": BOX, "size": (1000, 1000)}
LISTED = "[{'Position': [417, 283, 423, 289], 'Confidence': 1}]"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A gold answer and how an answer is right."""

    gold: Any
    right: str
    """A completion with full marks."""
    needs: tuple[str, ...]
    """A completion that lacks one of these, white space and case aside, cannot be right."""
    free: float = 0.0
    """The most that a completion that is not right may earn."""
    tags: Mapping[str, str] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sample(self) -> Sample:
        return Sample(id="hostile", messages=(), answer=self.gold, tags=self.tags, info=self.info)

    def is_undue(self, score: float, completion: str) -> bool:
        if score <= self.free:
            return False
        text = "".join(completion.split()).casefold()
        return not all(part in text for part in self.needs)


def tag_answer(answer: str) -> str:
    return f"<think>So be it.</think>\n<answer>{answer}</answer>"


MATH = Target(
    gold="7391",
    right="<think>$52$</think> <answer> 7391 </answer> $\\boxed{7391}$",
    needs=("7391",),
)
FORM = Target(gold="7391", right=tag_answer("7391"), needs=("</answer>", "<answer>"))
LENGTH = Target(gold="7391", right="\\boxed{7391}", needs=("7391",))
NAME = Target(gold="zeppelin", right=tag_answer("zeppelin"), needs=("zeppelin",))
PIXELS = Target(gold=BOX, right=tag_answer("(417,283),(423,289)"), needs=("4", "2"), free=0.01)
JSON_BOX = Target(
    gold=BOX,
    right=tag_answer('{"bbox_2d": [417, 283, 423, 289]}'),
    needs=("4", "2"),
    free=0.01,
    info={**IN_PICTURE, "frame": (1000, 1000)},
)
CLICK = Target(
    gold={"action": "click", "box": BOX},
    right=tag_answer('{"action": "click", "coordinate": [420, 286]}'),
    needs=("click", "4", "28"),
)
SPAN = Target(
    gold=(4173, 4174),
    right=tag_answer("4173 to 4174"),
    needs=("4",),
    free=0.01,
    info={"duration": 9000},
)
PIXEL_LIST = Target(gold=[BOX], right=tag_answer(LISTED), needs=("4", "2"), free=0.01)

TARGETS: Mapping[str, Target] = {
    "boxes": PIXELS,
    "boxes.bbox_2d": JSON_BOX,
    "boxes.detected": PIXEL_LIST,
    "boxes.detected_iou": PIXEL_LIST,
    "boxes.giou": Target(gold=BOX, right=PIXELS.right, needs=("4", "2"), free=0.51),
    "boxes.matched": Target(gold=[BOX], right=PIXELS.right, needs=("4", "2"), free=0.01),
    "boxes.qwen_vl_eval": Target(
        gold=BOX, right=PIXELS.right, needs=("4", "2"), free=0.01, info=IN_PICTURE
    ),
    "boxes.visual_rft": Target(gold=BOX, right=PIXELS.right, needs=("4", "2"), free=1.01),
    "boxes.visual_rft_confidence": PIXEL_LIST,
    "boxes.visual_rft_eval": PIXELS,
    "boxes.visual_rft_iou": PIXEL_LIST,
    "boxes.vlm_r1": JSON_BOX,
    "boxes.vlm_r1_eval": JSON_BOX,
    "choice": NAME,
    "choice.cvbench": Target(
        gold="B", right=tag_answer("(B)"), needs=("b",), tags={"options": "quince\nzeppelin"}
    ),
    "choice.visualthinker": NAME,
    "choices": Target(
        gold=["quixotic", "zeppelin"],
        right=tag_answer("Zeppelin, quixotic"),
        needs=("quixotic", "zeppelin"),
        free=0.5,
    ),
    "classname": NAME,
    "classname.visual_rft": NAME,
    "classname.visual_rft_eval": NAME,
    "count": Target(gold=7391, right=tag_answer("7391"), needs=("7391",)),
    "count.fuzzy": Target(gold=739186425, right=tag_answer("739186425"), needs=("7391",)),
    "count.r1v": Target(gold=7391, right=tag_answer(" 7391 "), needs=("7391",)),
    "count.r1v_eval": Target(gold=7391, right=tag_answer("7391"), needs=("<answer>",)),
    "countdown": Target(
        gold={"nums": [63, 95, 96], "target": 64},
        right=tag_answer("96-95+63"),
        needs=("63", "95", "96"),
    ),
    "countdown.line": Target(
        gold={"nums": [63, 95, 96], "target": 64},
        right=" 96-95+63",
        needs=("63", "95", "96"),
    ),
    "format": FORM,
    "format.easyr1": Target(
        gold="7391", right="<think>a</think>\\boxed{7391}", needs=("\\boxed{", "</think>")
    ),
    "format.open_rs": Target(gold="7391", right="a\n</think>\nb", needs=("</think>",)),
    "format.r1": FORM,
    "format.vlm_r1": Target(gold=BOX, right=JSON_BOX.right, needs=("<think>", "</answer>")),
    "gui_action": CLICK,
    "gui_action.accuracy": CLICK,
    "jaccard": Target(
        gold="quixotic; zeppelin",
        right=tag_answer("Zeppelin; quixotic"),
        needs=("quixotic", "zeppelin"),
        free=0.5,
    ),
    "length": LENGTH,
    "length.cosine": LENGTH,
    "length.curriculum": Target(gold="7391", right="\\boxed{7391}", needs=("7391",), free=1.0),
    "length.open_rs_cosine": LENGTH,
    "majority": FORM,
    "reasoning_format": Target(gold="7391", right="<LONG_COT>", needs=("cot>",), free=3.0),
    "math_answer": Target(gold="7391", right=tag_answer("7391"), needs=("7391",)),
    "math_answer.dr_grpo": MATH,
    "math_answer.lighteval": MATH,
    "math_answer.mathruler": MATH,
    "math_answer.open_r1": MATH,
    "math_answer.r1v": MATH,
    "math_answer.r1v_eval": MATH,
    "point": Target(gold=BOX, right=tag_answer("(420,286)"), needs=("4", "28")),
    "temporal_iou": SPAN,
    "temporal_iou.time_r1": SPAN,
    "temporal_iou.time_r1_eval": SPAN,
    "temporal_iou.time_r1_scaled": SPAN,
    "text_overlap": Target(
        gold="quixotic", right=tag_answer("quixotic"), needs=("quixotic",), free=0.01
    ),
    "text_overlap.f1": Target(
        gold="quixotic", right=tag_answer("quixotic"), needs=("quixotic",), free=0.01
    ),
    "tool_calls": Target(
        gold=[{"name": "fly", "parameters": {"craft": "zeppelin"}}],
        right='<tool_call>{"name": "fly", "parameters": {"craft": "zeppelin"}}</tool_call>',
        needs=("zeppelin", "fly", "<tool_call>"),
        free=0.99,
    ),
    "tool_calls.form": Target(
        gold=[{"name": "fly", "parameters": {"craft": "zeppelin"}}],
        right="<think></think><tool_call></tool_call>",
        needs=("</tool_call>", "<tool_call>"),
    ),
    "trajectory": Target(
        gold=[[0.125, 0.875], [0.25, 0.5]],
        right=tag_answer("[[0.125, 0.875], [0.25, 0.5]]"),
        needs=("0.125", "0.875"),
        free=0.95,
    ),
    "trajectory.form": Target(
        gold=[[0.125, 0.875]],
        right=f"<think></think>{tag_answer('[[0.125, 0.875]]')}",
        needs=("</answer>", "<answer>"),
    ),
}

# Defects of the released code for which hostile texts earn points, as its docstrings say.
PAYS_AS_RELEASED: Mapping[str, str] = {
    "boxes.visual_rft": "a box without overlap, an inverted box",
    "boxes.visual_rft_confidence": "a wrong box with confidence 0",
    "boxes.visual_rft_iou": "y1 of the first box alone",
    "choice.cvbench": "a letter in prose",
    "classname.visual_rft": "a part of the name, an empty answer",
    "classname.visual_rft_eval": "a part of the name, an empty answer",
}
