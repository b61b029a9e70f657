"""A stand-in for PyTorch, which is gigabytes: what torchrun does with a script and with signals."""
