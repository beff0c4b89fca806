"""What every other package may use: text that is safe to show, files that are safe to write, an orderly end."""
