"""Ranked links on request."""
