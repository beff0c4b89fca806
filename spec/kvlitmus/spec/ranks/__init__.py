"""Several ranks that hold shards of the same pages and must decide alike."""
