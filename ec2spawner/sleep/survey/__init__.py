"""What the variables of a namespace are made of, and which of them are saved together."""
