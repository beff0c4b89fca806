"""The subcommands of ``kvlitmus``, one module each, imported only when one is called."""
