"""Graphs over the ops of a table, and what chooses, plans and runs their kernels."""
