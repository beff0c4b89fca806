"""Legal caches: variations that a correct cache may have, on which every rule must stay silent."""
