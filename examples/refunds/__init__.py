"""Refunds: a shop's list of refunds, carried out by a bank, each once, though workers die."""
