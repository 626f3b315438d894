"""Formats API objects like kubectl: rows of tables, ages, and placeholders for missing values.

The command line prints them, and an agent without a cluster answers kubectl itself with them
(``app.kubectl_resources``): so a pod's STATUS is the same everywhere.
"""
