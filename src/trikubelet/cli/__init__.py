"""The command line: the agent's clients and the tools that need none, each spoken by a verb.

    arguments ─► main ─► verbs, the one table ─► commands/VERB ─► client ─► the local API of an agent that runs
                └ flags and nothing else: the agent            └ one_shot, hollow: agents of their own, in this process

It is another program than the agent, which happens to come in the same file: nothing of ``app`` knows of it.
"""
