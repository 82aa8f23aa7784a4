"""What makes a graph a better one that computes the same."""
