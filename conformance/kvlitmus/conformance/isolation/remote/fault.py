"""What goes wrong with a cache that is another process: each is a verdict on the call that was under way."""

from __future__ import annotations


class RemoteFault(BaseException):
    """The process of a cache failed in a call.

    ``rule``: PORT-02 where the process ended, PORT-03 where it said what the protocol doesn't know.  The text, which is
    harmless, goes on where it says *the call …*.  It is no ``Exception``: nothing of a cache's own raises it, so no
    code that expects a cache to refuse a call may take it for a refusal.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule
