"""Caches behind a pipe: a target that is a process, in any language, and speaks JSON lines (``docs/remote.md``)."""
