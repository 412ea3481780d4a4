"""A layout in the files of ALFWorld: the PDDL problem, the record next to it, and the goal sentence for the player."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from .scenes import Item, Layout, can_contain

QUALITIES = ("Cleanable", "Heatable", "Coolable", "Sliceable")


def pddl_problem(layout: Layout, name: str) -> str:
    """The PDDL problem. Types without an object are declared too, as the domain names some of them."""
    from alfworld.gen import constants, goal_library

    scene, target = layout.scene, layout.target
    fixed = constants.RECEPTACLES - constants.MOVABLE_RECEPTACLES_SET
    goal = goal_library.gdict[layout.family]["pddl"].replace("#", "-")
    lines = [
        f"(define (problem {name})",
        "(:domain alfred)",
        "(:objects",
        "agent1 - agent",
        *(f"  {kind}Type - otype" for kind in sorted(constants.OBJECTS_SET - fixed)),
        *(f"  {kind}Type - rtype" for kind in sorted(fixed)),
        *(f"  {item.id} - object" for item in layout.items),
        *(f"  {r.id} - receptacle" for r in scene.receptacles),
        *(f"  {r.location} - location" for r in scene.receptacles),
        f"  {scene.start} - location",
        ")",
        "(:init",
        "(= (total-cost) 0)",
        *_facts(layout),
        f"(atLocation agent1 {scene.start})",
        ")",
        goal.format(
            obj=target.object, recep=target.receptacle, toggle=target.lamp, mrecep=""
        ).strip(),
    ]
    return "\n".join(lines) + "\n"


def trajectory_record(layout: Layout, name: str) -> dict[str, Any]:
    """The content of traj_data.json, for alfworld's loader and its handcoded agent."""
    return {
        "task_id": name,
        "task_type": layout.family,
        "scene": {"room": layout.scene.room, "scene_num": layout.scene.number},
        "pddl_params": {
            "object_target": layout.target.object,
            "parent_target": layout.target.receptacle,
            "toggle_target": layout.target.lamp,
            "mrecep_target": "",
            "object_sliced": False,
        },
    }


def goal_sentence(layout: Layout, rng: random.Random) -> str:
    """The goal in one of alfworld's wordings."""
    from alfworld.gen import goal_library

    target = layout.target
    template: str = rng.choice(goal_library.gdict[layout.family]["templates"])
    return template.format(
        obj=target.object.lower(),
        recep=target.receptacle.lower(),
        toggle=target.lamp.lower(),
        mrecep="",
    )


def _facts(layout: Layout) -> Iterator[str]:
    from alfworld.gen import constants

    present = sorted({item.kind for item in layout.items})
    for place in layout.scene.receptacles:
        yield f"(receptacleType {place.id} {place.kind}Type)"
        yield f"(receptacleAtLocation {place.id} {place.location})"
        if place.kind in constants.OPENABLE_CLASS_SET:
            yield f"(openable {place.id})"
    for kind in layout.scene.kinds:
        accepted = can_contain(kind)
        yield from (f"(canContain {kind}Type {o}Type)" for o in present if o in accepted)
    for item in layout.items:
        yield from _item_facts(item)


def _item_facts(item: Item) -> Iterator[str]:
    from alfworld.gen import constants

    affordances = constants.VAL_ACTION_OBJECTS
    yield f"(objectType {item.id} {item.kind}Type)"
    yield f"(inReceptacle {item.id} {item.inside.id})"
    yield f"(objectAtLocation {item.id} {item.inside.location})"
    yield f"({'toggleable' if item.kind in affordances['Toggleable'] else 'pickupable'} {item.id})"
    yield from (f"({q.lower()} {item.id})" for q in QUALITIES if item.kind in affordances[q])
    if item.kind in constants.MOVABLE_RECEPTACLES_SET:
        yield f"(isReceptacleObject {item.id})"
