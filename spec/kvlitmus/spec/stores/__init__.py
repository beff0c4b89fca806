"""Page stores, judged alone: what keeps pages outside the machine's memory."""
