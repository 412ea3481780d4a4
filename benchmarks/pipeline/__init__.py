"""A model of servers, environments and a trainer at sizes that no machine here has: see `python -m benchmarks.pipeline -h`."""
