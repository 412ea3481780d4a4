"""`python -m benchmarks.ranks`: see `benchmarks/ranks/grid.py`, which the ranks import."""

from benchmarks.ranks.grid import main

if __name__ == "__main__":
    main()
