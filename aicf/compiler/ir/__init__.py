"""Typed graphs over the ops of a table: how they are made, said as text, checked and derived."""
