"""Which kernel runs: the legal ones, the choice among them, how it is found, where it is kept."""
