"""What hudhud's engine costs and how fast it is, measured beside something in the same run.

`hudhud bench` runs it. Each module measures one thing and knows its own targets.
"""
