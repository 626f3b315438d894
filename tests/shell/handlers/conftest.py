from __future__ import annotations

import ssl

import pytest
from trustme import CA


@pytest.fixture(scope="session")
def own_tls() -> ssl.SSLContext:
    """A server's side of TLS, with a certificate of nobody's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA().issue_cert("somebody.example").configure_cert(context)
    return context
