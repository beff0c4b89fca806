"""The calls, part by part: each makes port calls through the checker and hands it the steps.

A function here does what a lawful caller does, and nothing else; what it returns tells the
caller (a schedule, a litmus test, a trace) how to go on.
"""
