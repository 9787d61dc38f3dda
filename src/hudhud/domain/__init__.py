"""Pure values and rules: standard library only, no I/O."""
