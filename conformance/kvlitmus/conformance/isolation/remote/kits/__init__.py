"""What a cache in another language needs to speak with the suite: files to copy, beside a cache that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

KITS: Mapping[str, str] = {
    "cpp": "a trie with a host tier in C++17",
    "rust": "a block table in Rust",
    "go": "a radix tree in Go",
    "ts": "a radix tree in TypeScript",
}
"""The kits by the word for their language, each with the cache that is beside it."""

BUILDS: Mapping[str, tuple[str, str]] = {
    "cpp": ("c++ -std=c++17 -O2 -o cache cache.cpp", "./cache"),
    "rust": ("rustc --edition=2021 -O -o cache cache.rs", "./cache"),
    "go": ("go build -o cache .", "./cache"),
    "ts": ("npm install && npx tsc -p .", "node cache.js"),
}
"""How the cache of a kit is built, and the command that it is then."""


def kit_folder(lang: str) -> Path:
    """Where the files of a kit are."""
    return Path(__file__).parent / lang
