"""Reports: one run as a document (JSON), for a terminal, and as Markdown.

:mod:`~.document` puts together what there is to say, :mod:`~.terminal` and :mod:`~.markdown`
show it, :mod:`~.form` has the types of its rows, :mod:`~.compare` holds one against another.
"""
