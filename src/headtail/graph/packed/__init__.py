"""Graphs on disk: built out of core from edge lists of any size, read by mapping files into memory."""
