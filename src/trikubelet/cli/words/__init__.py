"""The arguments of each verb and the text of its help: a module for each verb, with ``parser()``.

They are apart from ``cli.commands``, which carry the verbs out: help, completion and the manual page are made of all of
them and must not load what the verbs need. A reader of a value may need more, and is loaded when there is a value
(``cli.arguments.Later``).
"""
