"""Page stores as targets: in files, and over the network."""
