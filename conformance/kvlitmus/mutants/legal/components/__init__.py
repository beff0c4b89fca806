"""Legal variations of the specimen's cache of components."""
