"""FNV hashes: small and not cryptographic. Upstream uses them for container hashes and static pod UIDs."""

from __future__ import annotations


def _fnv1a(data: bytes, offset: int, prime: int, mask: int) -> int:
    value = offset
    for byte in data:
        value = ((value ^ byte) * prime) & mask
    return value


def fnv1a_32(data: bytes) -> int:
    """FNV-1a with 32 bits."""
    return _fnv1a(data, 0x811C9DC5, 0x01000193, (1 << 32) - 1)


def fnv1a_64(data: bytes) -> int:
    """FNV-1a with 64 bits."""
    return _fnv1a(data, 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1)


def fnv1a_128(data: bytes) -> int:
    """FNV-1a with 128 bits."""
    return _fnv1a(data, 0x6C62272E07BB014262B821756295C58D, 0x0000000001000000000000000000013B, (1 << 128) - 1)
