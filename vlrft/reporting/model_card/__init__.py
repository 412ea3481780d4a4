"""The model card of an exported policy: a README.md for the hub, made from the files of the run that trained it."""

from vlrft.reporting.model_card.card import CardFacts, write_card
from vlrft.reporting.model_card.facts import StageLine, read_stages

__all__ = ["CardFacts", "StageLine", "read_stages", "write_card"]
