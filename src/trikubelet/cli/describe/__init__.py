"""What ``describe`` says of a thing: one module for each kind, an API object in, lines out (``layout``)."""
