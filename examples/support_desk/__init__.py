"""A support desk: an agent that looks orders up by itself, and asks a person before money or mail leaves."""
