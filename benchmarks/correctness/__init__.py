"""Whether the results are right: the packed forward against plain ones, killed and resumed runs."""
