"""Rewrite rules, one a file. Here alone ops are named."""
