"""How many heads are ranked among all nodes where nobody says; imports nothing, since every command line reads it."""

# Heads that `evaluate` asks for a list.
HEADS_SAMPLED = 1500
# The same where methods are trained: for the model card, in comparisons and in the demo. 0 is none.
HEADS_AFTER_TRAINING = 0
