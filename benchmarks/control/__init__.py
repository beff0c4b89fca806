"""The control plane beside SGLang's caches, on the CPU: rows of work, goals, and the page that shows them."""
