"""The rules of caches of prefixes, part by part, from pools to events, each part with its facts."""
