"""The graders against published verdicts and against other code."""
