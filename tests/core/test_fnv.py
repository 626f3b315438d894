"""The hashes things are named by, against the published vectors of their authors."""

import pytest

from trikubelet.core.fnv import fnv1a_32, fnv1a_64, fnv1a_128

# From the reference sources of FNV (Noll); the 128-bit ones as Go's hash/fnv has them.
VECTORS_32 = {b"": 0x811C9DC5, b"a": 0xE40C292C, b"foobar": 0xBF9CF968}
VECTORS_64 = {b"": 0xCBF29CE484222325, b"a": 0xAF63DC4C8601EC8C, b"foobar": 0x85944171F73967E8}
VECTORS_128 = {
    b"": 0x6C62272E07BB014262B821756295C58D,
    b"a": 0xD228CB696F1A8CAF78912B704E4A8964,
    b"ab": 0x08809544BBAB1BE95AA0733055B69A62,
    b"abc": 0xA68D622CEC8B5822836DBC7977AF7F3B,
}


@pytest.mark.parametrize(("data", "value"), VECTORS_32.items())
def test_32_bits(data: bytes, value: int) -> None:
    assert value == fnv1a_32(data)


@pytest.mark.parametrize(("data", "value"), VECTORS_64.items())
def test_64_bits(data: bytes, value: int) -> None:
    assert value == fnv1a_64(data)


@pytest.mark.parametrize(("data", "value"), VECTORS_128.items())
def test_128_bits(data: bytes, value: int) -> None:
    assert value == fnv1a_128(data)
