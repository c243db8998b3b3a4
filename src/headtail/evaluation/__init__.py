"""How well links were ranked, and what it cost."""
