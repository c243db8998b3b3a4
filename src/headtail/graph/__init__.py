"""What a graph is: sparse rows, node names, splits, the leak audit, message graphs."""
