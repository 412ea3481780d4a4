"""Items of the packed forward pass that are awkward to make."""

from __future__ import annotations

import torch
from PIL.Image import Image
from torch import Tensor

from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.schema import IMAGE
from vlrft.testing.small_policies import ask, noise_image


def several_turns(policy: Policy, square: Image) -> tuple[PackItem, Tensor]:
    """Three rows of several turns after one prompt with an image, and the mask of their actions; in two rows the environment
    shows more images."""
    chat, wide = policy.chat, noise_image(112, 56, 4)
    answer = chat.answer_ids("7")
    prompt = chat.render(ask(IMAGE, "Go on"), [square])
    shown = [
        [
            chat.follow(answer, ask(IMAGE, "?"), [wide]),
            chat.follow(answer, ask("No", IMAGE), [square]),
        ],
        [chat.follow(answer, ask("Yes"), [])],
        [chat.follow(answer, ask(IMAGE, IMAGE), [square, wide])],
    ]
    rows, masks = [], []
    for turns in shown:
        ids, actions = list(answer), [True] * len(answer)
        for turn in turns:
            ids += [*turn.ids, *answer]
            actions += [False] * len(turn.ids) + [True] * len(answer)
        rows.append(tuple(ids))
        masks.append(actions)
    mask = torch.zeros(len(rows), max(map(len, masks)), dtype=torch.bool)
    for b, actions in enumerate(masks):
        mask[b, : len(actions)] = torch.tensor(actions)
    images = tuple(tuple(i for turn in turns for i in turn.images) for turns in shown)
    return PackItem(prompt=prompt, rows=tuple(rows), images=images), mask
