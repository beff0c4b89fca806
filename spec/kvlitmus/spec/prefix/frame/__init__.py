"""The frame: what a step may change, and which cause explains each change that was seen."""
