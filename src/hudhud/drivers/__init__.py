"""Run a call on somebody's connection, in somebody's transaction."""
