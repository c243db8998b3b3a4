"""What a batch is: rows or edges, negatives, sampled neighbourhoods."""
