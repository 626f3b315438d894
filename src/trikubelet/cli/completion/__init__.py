"""Scripts that make the Tab key of a shell know this program, made of the table of verbs and their parsers.

``slots`` says what may stand where; ``bash``, ``zsh`` and ``fish`` write it down in the language of their shell. Flags,
verbs and kinds are in the scripts; only for the names of things a script asks the running agent.
"""
