"""Around one call: the call itself, what is seen before and after it, the facts, and the rules that judge them."""
