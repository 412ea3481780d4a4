"""The layouts in which the four datasets are published, in the order in which they are looked for."""

from __future__ import annotations

from vlrft.data import Layouts

from .class_list import VISUAL_RFT
from .few_shot import layout
from .official import has_coop, has_official, read_coop, read_official
from .tables import has_class_folders, has_table, read_class_folders, read_table
from .visual_rft import has_predictions, read_predictions

AUTHORS = {
    "pets37": "annotations/trainval.txt and test.txt with images/",
    "fgvc_aircraft100": "images_variant_trainval.txt (or train and val) and images_variant_test.txt with images/",
    "flowers102": "setid.mat and imagelabels.mat with jpg/",
    "cars196": "devkit/cars_train_annos.mat and cars_test_annos_withlabels.mat with cars_train/ and cars_test/",
}

LAYOUTS = Layouts(
    (
        layout(
            "SPLIT tables with image and solution, label or class (the hub's ViRFT_CLS_* and copies of the dataset), or "
            "DATASET_SPLIT.jsonl and DATASET_classes.txt next to the images",
            has_table,
            read_table,
        ),
        layout("CoOp's split_zhou_*.json next to the images", has_coop, read_coop),
        *(
            layout(
                f"the authors' {files}", has_official, read_official, options={"dataset": dataset}
            )
            for dataset, files in AUTHORS.items()
        ),
        *(
            layout(
                f"Visual-RFT's val_data/{list_of_classes.removesuffix('.txt')}.pth next to CoOp's images",
                has_predictions,
                read_predictions,
                splits=("test",),
                options={"dataset": dataset},
            )
            for dataset, list_of_classes in VISUAL_RFT.items()
        ),
        layout("SPLIT/CLASS/*.jpg", has_class_folders, read_class_folders),
    )
)
