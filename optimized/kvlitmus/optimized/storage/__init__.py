"""Page stores: where pages are kept outside of the machine's memory.

``base`` says what a page store is, ``file`` keeps pages in a folder.  Neither needs more than the standard library.
"""
