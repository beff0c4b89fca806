"""Page stores: where pages are kept outside of the machine's memory.

``base`` says what a page store is, ``record`` how a page is written down, ``file`` keeps pages in a folder: these need
the standard library alone.  ``redis`` keeps pages on a server, and needs a client library (the extra ``redis``).
``mooncake`` keeps them in the memory of several processes (the extra ``mooncake``).
"""
