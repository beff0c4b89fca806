"""Fuzzing: schedules without end, chosen by what they reach.

What is where, in the order in which it is best read:

**In a worker** — ``features`` (what a play reached, as small numbers), ``play`` (plays one schedule and
reports both result and features).

**Choosing** — ``corpus`` (schedules that reached something new, and how often each is worth another
try), ``mutate`` (how new schedules are made from kept ones).

**Keeping** — ``store`` (the folder on disk: what was announced survives any kill), ``dedupe`` (which
findings are one and the same, and which rules rest because they are known to be broken).

**The campaign** — ``budget``, ``job_runner`` (worker processes, and what becomes of those that die),
``campaign`` (who plays what next, and what comes of it), ``canary`` (a planted bug that must be found),
``display``, ``summary``.
"""
