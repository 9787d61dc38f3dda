"""Documents: upload one, get an id at once, and its analysis later, if it is yours."""
