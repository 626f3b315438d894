"""Whom the tests of the API client trust, made once."""

from __future__ import annotations

import pytest
from trustme import CA


@pytest.fixture(scope="session")
def authority() -> CA:
    return CA()
