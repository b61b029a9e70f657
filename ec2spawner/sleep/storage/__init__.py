"""The files of a sleep: who may have written them, what is in them, and how long they stay."""
