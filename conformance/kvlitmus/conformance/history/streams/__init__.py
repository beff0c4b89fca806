"""Streams of KV events: what engines publish for routers, captured to a file, and judged without the cache.

* :mod:`~kvlitmus.conformance.history.streams.forms` reads a batch of events as vLLM, SGLang and Dynamo understand it;
* :mod:`~kvlitmus.conformance.history.streams.capture` reads files of them: msgpack or JSON Lines;
* :mod:`~kvlitmus.conformance.history.streams.mirror` is what a router knows that has heard them;
* :mod:`~kvlitmus.conformance.history.streams.judge` has them judged, batch by batch;
* :mod:`~kvlitmus.conformance.history.streams.verdict` makes the report.
"""
