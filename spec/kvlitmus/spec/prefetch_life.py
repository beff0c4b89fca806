"""The life of a prefetch: the stages that it goes through."""

from __future__ import annotations

QUERY, ANSWERED, REVOKED, FETCH, ENDED = STAGES = ("query", "answered", "revoked", "fetch", "ended")
"""Storage is asked; it has told, and memory is yet to be taken; it has too little; it is read; the read is over."""
