"""Misuse: calls that the contract forbids, and what a cache owes that says it rejects or ignores them."""
