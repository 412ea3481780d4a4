"""`report.html`: one page with the curves, the evaluations and the rollouts of a run, without links to other files."""
