"""The adapter to API servers, and to the files that say who this node is to them; the only package that sees httpx."""
