"""The layouts in which the four datasets are published, in the order in which they are looked for."""

from __future__ import annotations

from vlrft.data import Layouts

from .few_shot import layout
from .official import has_coop, has_official, read_coop, read_official
from .tables import has_class_folders, has_table, read_class_folders, read_table
from .visual_rft import has_predictions, read_predictions

LAYOUTS = Layouts(
    (
        layout(
            "SPLIT tables with image and solution, label or class (the hub's ViRFT_CLS_* and its copies of the four "
            "datasets), or DATASET_SPLIT.jsonl and DATASET_classes.txt next to the images",
            has_table,
            read_table,
        ),
        layout("split_zhou_*.json next to the images (CoOp)", has_coop, read_coop),
        layout(
            "the authors' folder: annotations/trainval.txt and test.txt with images/ (pets37), images_variant_*.txt with "
            "images/ (fgvc_aircraft100), setid.mat and imagelabels.mat with jpg/ (flowers102), devkit/cars_train_annos.mat "
            "and cars_test_annos_withlabels.mat with cars_train/ and cars_test/ (cars196)",
            has_official,
            read_official,
        ),
        layout(
            "Visual-RFT's val_data/pets.pth, oxford_flowers.pth, fgvc_aircraft.pth or stanford_cars.pth next to CoOp's images",
            has_predictions,
            read_predictions,
            ("test",),
        ),
        layout("SPLIT/CLASS/*.jpg", has_class_folders, read_class_folders),
    )
)
