"""`python -m hudhud.cli`: the command line without its console script, as children start it."""

from hudhud.cli.main import main

main()
