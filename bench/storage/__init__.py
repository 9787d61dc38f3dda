"""The prototype that decided hudhud's storage.

Three layouts, one load, figures as ratios inside one shuffled run; the result is
``docs/decisions/0001-storage.md``. From ``bench/``: ``python -m storage TEST``.
"""
