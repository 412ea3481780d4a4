"""Rows of the hub's datasets."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from vlrft.data.cells import Cells
from vlrft.data.class_names import name_classes
from vlrft.schema import DataError
from vlrft.schema.errors import MissingSplit
from vlrft.schema.short_message import first_line

# How a user gives data that are not on the hub.
PLACE = "data=PATH (task.options.data in a config, --from in vlrft data prepare)"


def hub_rows(name: str, config: str | None, split: str) -> Iterator[Cells]:
    """The rows of a split of a hub dataset, or of one of its folders if `config` ends in a slash. Images stay encoded.

    Raises MissingSplit if the dataset does not have it, DataError if it cannot be loaded.
    """
    require_datasets(name)
    import datasets

    datasets.disable_progress_bars()
    selection: dict[str, Any] = {"name": config}
    if config is not None and config.endswith("/"):
        selection = {"data_files": {split: f"{config}{split}*.parquet"}}
    try:
        dataset: Any = datasets.load_dataset(name, split=split, **selection)
        for column, feature in dataset.features.items():
            encoded = _without_decoding(feature)
            if encoded != feature:
                dataset = dataset.cast_column(column, encoded)
    except Exception as e:  # the library raises whatever its transports raise
        if config is None and len(configs := _config_names(name)) > 1:
            raise DataError(
                f"{name}: it has several configs, {', '.join(configs)}; give one: data={name}:{configs[0]}"
            ) from e
        if "Unknown split" in str(e):
            raise MissingSplit(f"{name}: no {split} split on the hub ({first_line(e)})") from e
        raise DataError(
            f"{name}: cannot load the {split} split from the hub ({first_line(e)}); give a local copy with {PLACE}"
        ) from e
    classes = {
        column: feature.names
        for column, feature in dataset.features.items()
        if isinstance(feature, datasets.ClassLabel)
    }
    for row in dataset:
        yield name_classes(row, classes)


def hub_splits(name: str, config: str | None) -> tuple[str, ...]:
    """The splits of a hub dataset. Raises DataError if they cannot be read."""
    require_datasets(name)
    import datasets

    try:
        builder: Any = datasets.load_dataset_builder(name, config)
        return tuple(map(str, builder.config.data_files or builder.info.splits or ()))
    except Exception as e:  # the library raises whatever its transports raise
        raise DataError(f"{name}: cannot read it from the hub ({first_line(e)})") from e


def _config_names(name: str) -> list[str]:
    """The configs of a hub dataset; none where they cannot be read either."""
    import datasets

    try:
        return [str(config) for config in datasets.get_dataset_config_names(name)]
    except Exception:  # whatever its transports raise
        return []


def require_datasets(name: str) -> None:
    if find_spec("datasets") is None:
        raise DataError(
            f"{name}: reading it needs datasets, which is not installed: pip install datasets"
        )


def _without_decoding(feature: Any) -> Any:
    """The feature with its images, however nested, as their bytes: only `vlrft.vision` decodes pictures."""
    import datasets

    if isinstance(feature, datasets.Image):
        return datasets.Image(decode=False)
    if isinstance(feature, dict):
        return {name: _without_decoding(part) for name, part in feature.items()}
    if isinstance(feature, datasets.List | datasets.LargeList):
        inner = _without_decoding(feature.feature)
        return feature if inner == feature.feature else type(feature)(inner)
    return feature
