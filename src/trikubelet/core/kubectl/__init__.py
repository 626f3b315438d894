"""How things look to whoever knows kubectl: their rows in tables, their ages, and what stands where there is nothing.

The command line prints them, and an agent without a cluster answers kubectl itself with them
(``app.kubectl_resources``): so there is one opinion of what a pod's STATUS is.
"""
