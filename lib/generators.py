"""One random generator per purpose, made from (seed, purpose), so that no draw shifts another's sequence."""

import hashlib

import torch


def seed_for(seed: int, purpose: str) -> int:
    """A 63-bit seed that is a hash of both."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:8], "big") >> 1


def generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator on ``device``; the numbers that it draws depend on seed, purpose and kind of device.

    On a CPU torch keeps 32 bits of the seed: enough to keep runs apart, and few enough to be tried one by one.
    """
    return torch.Generator(device).manual_seed(seed_for(seed, purpose))
