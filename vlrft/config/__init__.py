"""The configuration of a run: frozen dataclasses, one a section, with a docstring below each key.

run        Config, the whole tree, and its sections eval, save, log, ranks, published
stage      a stage, with its sections rollout and update
task       the pack, its rewards, its environment
policy     the model
strict     the decorator of a section; the ranges of its numbers are in vlrft.schema.ranges
load       load_config: YAML and overrides -> Config
yaml_text  YAML -> plain values, with limits for hostile text
choice     things that a config chooses by name
renamed    old keys and metrics -> new ones
"""

from vlrft.config.policy import BuildConfig, LoraConfig, PolicyConfig
from vlrft.config.run import (
    Config,
    EvalConfig,
    LogConfig,
    Published,
    RanksConfig,
    SaveConfig,
)
from vlrft.config.stage import RolloutConfig, StageConfig, UpdateConfig
from vlrft.config.strict import strict
from vlrft.config.task import EnvConfig, RewardConfig, TaskConfig
from vlrft.schema.ranges import (
    FiniteFloat,
    Natural,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Range,
    Seed,
    Share,
    UnitInterval,
)

__all__ = [
    "BuildConfig",
    "Config",
    "EnvConfig",
    "EvalConfig",
    "FiniteFloat",
    "LogConfig",
    "LoraConfig",
    "Natural",
    "NonNegativeFloat",
    "PolicyConfig",
    "Positive",
    "PositiveFloat",
    "Published",
    "Range",
    "RanksConfig",
    "RewardConfig",
    "RolloutConfig",
    "SaveConfig",
    "Seed",
    "Share",
    "StageConfig",
    "TaskConfig",
    "UnitInterval",
    "UpdateConfig",
    "strict",
]
