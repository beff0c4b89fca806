"""SGLang's caches as targets: what its releases share, and each release by itself."""
