"""Texts as rows of word indices, beside the frozen vectors of the words.

A text is lower-cased and cut by torchtext's ``basic_english`` tokenizer, its first :data:`LENGTH` words are kept, as
in v1's code, shorter ones are padded.  The vocabulary is that of the word vectors, which are public: no word of a
private text is told by it.  Index 0 is padding, whose vector is 0; index 1 any other word, with the mean vector.

Without word vectors a word's index is a hash of it, and its vector is random: then there is no vocabulary at all.

Files: ``ag_news.npz`` with train_text, test_text (UTF-8, one text per line) and train_labels, test_labels;
``glove.npz`` with words (UTF-8, one per line) and vectors (V, D).
"""

import zlib

import numpy as np

LENGTH = 20
PADDING, UNKNOWN = 0, 1
HASHES, DIMENSIONS = 20_000, 50  # of random word vectors


def indices(texts: list[str], words: list[str] | None) -> np.ndarray:
    """(N, LENGTH) int64: where in ``words`` the words of each text stand, plus 2; None: their hashes, plus 2."""
    from torchtext.data.utils import get_tokenizer

    tokenize, place = get_tokenizer("basic_english"), {word: i + 2 for i, word in enumerate(words or [])}
    rows = np.full((len(texts), LENGTH), PADDING, np.int64)
    for row, text in zip(rows, texts, strict=True):
        kept = tokenize(text)[:LENGTH]
        row[: len(kept)] = [_hash(word) if words is None else place.get(word, UNKNOWN) for word in kept]
    return rows


def _hash(word: str) -> int:
    """Python's own hash differs from process to process."""
    return zlib.crc32(word.encode()) % HASHES + 2


def random_vectors() -> np.ndarray:
    """(HASHES, DIMENSIONS) draws of N(0, 1), always the same."""
    return np.random.default_rng(0).normal(size=(HASHES, DIMENSIONS)).astype(np.float32)


def table(vectors: np.ndarray) -> np.ndarray:
    """(2 + V, D): ``vectors`` (V, D) below those of padding and of unknown words."""
    return np.concatenate([np.zeros_like(vectors[:1]), vectors.mean(0, keepdims=True), vectors])


def lines(array: np.ndarray) -> list[str]:
    """The lines of a UTF-8 text that is stored as bytes."""
    return array.tobytes().decode().split("\n")


def stored(texts: list[str]) -> np.ndarray:
    """The inverse of :func:`lines`."""
    return np.frombuffer("\n".join(texts).encode(), np.uint8)


TOPICS = (
    "team match goal season coach player win league cup score champion final",
    "market stock bank price profit trade share investor growth company oil rate",
    "president minister election war peace treaty border army vote police court capital",
    "computer software internet phone network chip data science space robot virus search",
)
COMMON = "the a of in on to and for with new said from by as at its after over more than".split()  # noqa: SIM905


def topics() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A small made-up text set for the smoke tier: a third of the words of each text are of one of four topics.

    Returns arrays as of ``ag_news.npz``, with indices for texts, and the table of random word vectors.
    """
    draws = np.random.default_rng(0)
    words = [*COMMON, *" ".join(TOPICS).split()]
    arrays = {}
    for split, examples in (("train", 1200), ("test", 300)):
        labels, texts = draws.integers(len(TOPICS), size=examples).astype(np.uint8), []
        for label in labels:
            size = draws.integers(6, 30)
            own, others = draws.choice(TOPICS[label].split(), size), draws.choice(COMMON, size)
            texts.append(" ".join(np.where(draws.random(size) < 1 / 3, own, others)))
        arrays |= {f"{split}_inputs": indices(texts, words), f"{split}_labels": labels}
    return arrays, table(draws.normal(size=(len(words), 16)).astype(np.float32))
