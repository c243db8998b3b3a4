"""Comparison runs, tables and figures."""
