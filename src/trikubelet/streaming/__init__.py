"""The streaming server of a runtime of ours: what the URLs of the CRI's Exec, Attach and PortForward lead to.

    StreamingServer.url ─► http://127.0.0.1:PORT/TOKEN ─► SPDY ─► talk_to_process, forward_ports ─► the runtime's own

``embedded`` and ``fake`` have one each; the other end is the client that got the URL, as with any runtime.
"""
