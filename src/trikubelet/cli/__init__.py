"""The command line: clients of the agent and tools that need no agent, a verb for each.

    arguments ─► main ─► verbs, the one table ─► commands/VERB ─► client ─► the local API of a running agent
                └ flags and nothing else: the agent            └ one_shot, hollow: agents of their own, in this process

It is a separate program that ships in the same file as the agent: ``app`` does not import it.
"""
