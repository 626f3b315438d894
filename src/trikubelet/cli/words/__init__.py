"""The arguments of each verb and the text of its help: a module for each verb, with ``parser()``.

They are separate from ``cli.commands``, which run the verbs: help, completion and the manual page are made of all of
them and must not load the verbs' modules. The reader of a value may need more, and is loaded when there is a value
(``cli.arguments.Later``).
"""
