"""How many heads are ranked among all nodes where nobody says; imports nothing, since every command line reads it."""

# Heads that are asked for a list: by `evaluate`, after training, in comparisons and in the demo. Fewer by default where
# a head is dear (`serving.cost`).
HEADS_SAMPLED = 1500
