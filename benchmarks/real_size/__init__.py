"""Models of released size with random weights: every command on them, and the memory plan beside what is measured."""
