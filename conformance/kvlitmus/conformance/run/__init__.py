"""A run: which items make up a verdict, the engine that plays one, and what comes of it as plain data."""
