"""Reads files of the image while no lease wants the instance, so that the disk has them by then."""
