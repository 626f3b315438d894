"""Completion scripts for shells, made of the table of verbs and their parsers.

``slots`` lists the possible words at each place; ``bash``, ``zsh`` and ``fish`` write them in the language of their
shell. Flags, verbs and kinds are in the scripts; only names of objects are requested from the running agent.
"""
