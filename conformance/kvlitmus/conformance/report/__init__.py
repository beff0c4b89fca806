"""Reports: one run as a document (JSON), for a terminal, and as Markdown.

:mod:`~.document` puts together what there is to say, :mod:`~.terminal` and :mod:`~.markdown`
show it, :mod:`~.failures` saves counterexamples so that they can be played again.
"""
