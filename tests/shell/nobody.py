"""The kubeconfig of a cluster where nobody answers."""

NOBODY = """\
apiVersion: v1
kind: Config
clusters: [{name: away, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {token: t}}]
contexts: [{name: here, context: {cluster: away, user: me}}]
current-context: here
"""
