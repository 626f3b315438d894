"""The command line's verbs: one module per verb, each with ``run(argv) -> int``.

A verb parses its own arguments, sends requests to the agent over its local socket and prints what kubectl would print.
``cli/main.py`` imports a verb only when it is used, so each starts fast.
"""
