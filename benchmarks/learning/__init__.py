"""Whether training teaches: the quickstart with its controls, agents, every pack, a pretrained model."""
