"""The papers' claims about GPG, GMPO, GVPO and covariance-weighted GRPO, tried at small scale."""
