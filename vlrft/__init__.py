"""Reinforcement fine-tuning of vision-language models. `import vlrft` loads no torch."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# A wheel carries rewards/ and tasks/ inside this package; a checkout keeps them beside it.
_here = Path(__file__).resolve().parent
if not (_here / "rewards" / "__init__.py").is_file():
    __path__.append(str(_here.parent))

try:
    __version__ = version("vlrft")
except PackageNotFoundError:  # a bare checkout on the path
    __version__ = "0+unknown"
