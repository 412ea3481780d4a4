"""The six families of ALFWorld, and the contents of the rooms of generated games. What fits where is in alfworld's table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Family = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]
FAMILIES: tuple[Family, ...] = get_args(Family)
SPLITS = ("train", "valid_seen", "valid_unseen")
# Numbers of the scenes of each room: ALFRED trains in 7 to 30 and holds out 1 to 6.
SCENES = {"train": range(7, 31), "valid_seen": range(7, 31), "valid_unseen": range(1, 7)}

# Family -> the affordance of its object in alfworld's table, and the receptacle where it is changed.
CHANGES = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}

# Room -> kind of receptacle -> its smallest and largest number.
ROOMS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "Bathroom": {
        "SinkBasin": (1, 2),
        "BathtubBasin": (0, 1),
        "Toilet": (1, 1),
        "CounterTop": (1, 1),
        "Cabinet": (2, 4),
        "Drawer": (0, 4),
        "GarbageCan": (1, 1),
        "ToiletPaperHanger": (1, 1),
        "HandTowelHolder": (1, 2),
        "TowelHolder": (1, 1),
        "Shelf": (0, 2),
        "Cart": (0, 1),
    },
    "Bedroom": {
        "Bed": (1, 1),
        "Desk": (1, 1),
        "SideTable": (1, 2),
        "Drawer": (2, 6),
        "Shelf": (0, 4),
        "Dresser": (0, 1),
        "GarbageCan": (1, 1),
        "Safe": (0, 1),
        "LaundryHamper": (0, 1),
        "ArmChair": (0, 1),
    },
    "Kitchen": {
        "CounterTop": (1, 3),
        "Cabinet": (3, 8),
        "Drawer": (2, 6),
        "Fridge": (1, 1),
        "Microwave": (1, 1),
        "SinkBasin": (1, 1),
        "StoveBurner": (2, 4),
        "CoffeeMachine": (1, 1),
        "Toaster": (1, 1),
        "GarbageCan": (1, 1),
        "DiningTable": (0, 1),
        "Shelf": (0, 3),
        "SideTable": (0, 1),
    },
    "LivingRoom": {
        "Sofa": (1, 1),
        "ArmChair": (0, 2),
        "CoffeeTable": (1, 1),
        "SideTable": (1, 2),
        "Drawer": (0, 4),
        "Shelf": (0, 4),
        "GarbageCan": (1, 1),
        "Dresser": (0, 1),
        "Safe": (0, 1),
        "DiningTable": (0, 1),
        "Ottoman": (0, 1),
    },
}

# Room -> kinds of objects in it.
_OBJECT_NAMES = {
    "Bathroom": "Candle Cloth DishSponge HandTowel Plunger SoapBar SoapBottle SprayBottle TissueBox "
    "ToiletPaper ToiletPaperRoll Towel",
    "Bedroom": "AlarmClock BaseballBat BasketBall Book Bowl Box CD CellPhone Cloth CreditCard "
    "KeyChain Laptop Mug Pen Pencil Pillow TennisRacket TissueBox",
    "Kitchen": "Apple Bowl Bread ButterKnife Cup DishSponge Egg Fork Glassbottle Kettle Knife Ladle "
    "Lettuce Mug Pan PepperShaker Plate Pot Potato SaltShaker SoapBottle Spatula Spoon Tomato "
    "WineBottle",
    "LivingRoom": "Book Bowl Box CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil Pillow "
    "Plate RemoteControl Statue TissueBox Vase Watch WateringCan",
}
OBJECTS = {room: tuple(names.split()) for room, names in _OBJECT_NAMES.items()}
LAMPS: Mapping[str, tuple[str, ...]] = {
    "Bedroom": ("DeskLamp",),
    "LivingRoom": ("DeskLamp", "FloorLamp"),
}
LAMPS_STAND_ON = ("CoffeeTable", "Desk", "Dresser", "SideTable")
