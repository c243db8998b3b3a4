"""Methods with the common contract that are no GNN."""
