"""What the adapters to all releases of SGLang share."""
