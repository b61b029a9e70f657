"""Mutants of the product, and whether the tests of `make test` notice each.

No library serves: mutmut selects the mutant by an environment variable, which the agents of
embedded instances do not inherit, and cosmic-ray runs one test command for every mutant, whereas
each of these needs some of six hundred test files. Neither has a sample that stays the same.
"""
