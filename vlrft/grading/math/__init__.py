"""Mathematical answers: reading them from text and LaTeX, and deciding whether two are equal."""
