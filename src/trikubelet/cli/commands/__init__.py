"""The command line's verbs: one module per verb, each with ``run(argv) -> int``.

A verb parses its own arguments, asks the agent over its local socket and prints what kubectl would print.
``cli/main.py`` imports a verb only when it is spoken, so each stays quick to start.
"""
