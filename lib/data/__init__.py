"""Data sets as tensors that already lie on the device: images as uint8, texts as word indices (:mod:`lib.data._text`).

``load(name)`` looks for ``<name>.npz`` in ``$DP_COMPANION_DATA`` (default: ``data/`` in the current folder, then in
the repository).  If it is absent it is downloaded, where that can be through torchvision and torchtext, and written
there once; a file of one's own, of images, is found by its name.  No data set is ever swapped for another.  For the
smoke tier there are small ones without a file: ``digits`` and ``digits_rgb``, real images that ship inside
scikit-learn, and made-up ones, ``stripes_rgb`` (images) and ``topics`` (texts).

    >>> digits = load("digits")
    >>> digits.train_inputs.shape, digits.train_inputs.dtype
    (torch.Size([1437, 1, 28, 28]), torch.uint8)
    >>> topics = load("topics")
    >>> topics.train_inputs.shape, topics.vectors.shape
    (torch.Size([1200, 20]), torch.Size([70, 16]))
"""

import hashlib
import os
import tempfile
import tokenize
import zipfile
import zlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lib.data import _text as text
from lib.data._dataset import Dataset as Dataset
from lib.data._downloads import DOWNLOADS
from lib.data._images import GENERATED as GENERATED_IMAGES

FOLDER_VARIABLE = "DP_COMPANION_DATA"
GENERATED = (*GENERATED_IMAGES, "topics")  # without a file
WORD_VECTORS = {"ag_news": "glove"}  # texts → the file of their words' vectors
RANDOM_VECTORS = {"ag_news_random_vectors": "ag_news"}  # texts with random vectors → the file of the texts
MOST_CLASSES = 1000  # more are no classes, but something else in the place of labels
_DAMAGED = (  # what numpy and zipfile raise on files with other bytes inside
    *(OSError, EOFError, KeyError, TypeError, ValueError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
PUBLIC_WORDS = "; the word vectors and the vocabulary, which is theirs, are public"


class DataError(Exception):
    """A data file that is missing or not what it should be; the message says which, where, and what to do."""


def as_input(images: Tensor) -> Tensor:
    """uint8 images as floats in [0, 1], what every model of images takes."""
    return images.float().div_(255)


def load(name: str, *, device: torch.device | str = "cpu") -> Dataset:
    """The data set ``name``, resident on ``device``; ``DataError`` if its file is missing, damaged or unknown."""
    if name in GENERATED:
        return _topics(str(device)) if name == "topics" else _generated_images(name, str(device))
    known = sorted(DOWNLOADS.keys() - WORD_VECTORS.values() | RANDOM_VECTORS.keys())
    if name not in known and not _is_own(name):
        raise DataError(
            f"unknown data set {name!r}; expected one of {', '.join([*GENERATED, *known])}, or the name of an .npz "
            f"file of images in {folder()}"
        )
    parts = filter(None, (RANDOM_VECTORS.get(name, name), WORD_VECTORS.get(name)))
    return _read(name, tuple(map(_file, parts)), str(device))


def _is_own(name: str) -> bool:
    """Whether somebody put a file of this name there, beside those that are known."""
    return Path(name).name == name and name not in WORD_VECTORS.values() and (folder() / f"{name}.npz").exists()


def folder() -> Path:
    """Where data files are looked for and downloaded to."""
    if given := os.environ.get(FOLDER_VARIABLE):
        return Path(given).expanduser()
    here = Path("data")
    return here.resolve() if here.is_dir() else Path(__file__).resolve().parent.parent.parent / "data"


def _file(name: str) -> tuple[Path, int]:
    """The file of ``name``, downloaded if it is absent, and when it was changed."""
    path = folder() / f"{name}.npz"
    if not path.exists():
        _download(name, path)
    return path, path.stat().st_mtime_ns


@lru_cache(maxsize=4)
def _read(name: str, files: tuple[tuple[Path, int], ...], device: str) -> Dataset:
    paths = [path for path, _ in files]
    of_texts = name in WORD_VECTORS | RANDOM_VECTORS
    kinds = ("text", "labels") if of_texts else ("images", "labels")
    # KMNIST serves as public images only, and its file may hold the test split alone.
    optional = "train_" if name == "kmnist" else None
    arrays = _arrays(paths[0], [f"{s}_{k}" for s in ("train", "test") for k in kinds], optional=optional)
    vectors = _arrays(paths[1], ["words", "vectors"]) if name in WORD_VECTORS else {}
    sha256 = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    if of_texts:
        return _of_texts(name, sha256, arrays, vectors, device)
    if "train_images" not in arrays:
        arrays |= {"train_images": arrays["test_images"][:0], "train_labels": arrays["test_labels"][:0]}
    return _of_images(name, sha256, arrays, device)


def _arrays(path: Path, keys: list[str], *, optional: str | None = None) -> dict[str, np.ndarray]:
    """Those of ``keys``; the file may have none of those that begin with ``optional``, but not some of them."""
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            if optional and not any(key.startswith(optional) for key in file):
                keys = [key for key in keys if not key.startswith(optional)]
            return {key: file[key] for key in keys}
    except _DAMAGED as error:
        again = "; delete it to download it again" if path.stem in DOWNLOADS else ""
        raise DataError(
            f"{path}: expected an .npz file with {', '.join(keys)}; got {type(error).__name__}: {error}{again}"
        ) from error


def _of_images(name: str, sha256: str, arrays: dict[str, np.ndarray], device: str) -> Dataset:
    inputs = {}
    for split in ("train", "test"):
        images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
        if images.dtype != np.uint8 or images.ndim not in (3, 4) or labels.shape != images.shape[:1]:
            raise DataError(
                f"{name}: expected uint8 {split} images (N, H, W[, C]) with one label each; "
                f"got {images.dtype} {images.shape} with labels {labels.shape}"
            )
        if images.shape[1:] != arrays["train_images"].shape[1:] or images.shape[3:] not in ((), (1,), (3,)):
            raise DataError(
                f"{name}: expected images of one size, (H, W) or (H, W, C) with 1 or 3 channels last; got {split} "
                f"images of {images.shape[1:]} and training images of {arrays['train_images'].shape[1:]}"
            )
        inputs[split] = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    return _on(device, name, sha256, arrays, inputs)


def _lines(name: str, key: str, array: np.ndarray) -> list[str]:
    try:
        return text.lines(array)
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: expected {key} in UTF-8; got {error}") from error


def _of_texts(
    name: str, sha256: str, arrays: dict[str, np.ndarray], known: dict[str, np.ndarray], device: str
) -> Dataset:
    words = _lines(name, "words", known["words"]) if known else None
    vectors, inputs = known["vectors"].astype(np.float32) if known else text.random_vectors(), {}
    if vectors.ndim != 2 or len(words or vectors) != len(vectors):
        raise DataError(f"{name}: expected one vector for each of {len(words)} words; got vectors {vectors.shape}")
    for split in ("train", "test"):
        texts, labels = _lines(name, f"{split}_text", arrays[f"{split}_text"]), arrays[f"{split}_labels"]
        if labels.shape != (len(texts),):
            raise DataError(f"{name}: expected one label for each of {len(texts)} {split} texts; got {labels.shape}")
        inputs[split] = text.indices(texts, words)
    dataset = _on(device, name, sha256, arrays, inputs, text.table(vectors))
    return replace(dataset, assumes_of_words=PUBLIC_WORDS if known else "")


def _on(
    device: str,
    name: str,
    sha256: str,
    arrays: dict[str, np.ndarray],
    inputs: dict[str, np.ndarray],
    vectors: np.ndarray | None = None,
) -> Dataset:
    """The data set, on ``device``; ``DataError`` for labels that begin after 0, with a class that nothing is of."""
    tensors = {} if vectors is None else {"vectors": torch.from_numpy(vectors).to(device)}
    for split, of_split in inputs.items():
        labels = _checked(name, split, arrays[f"{split}_labels"])
        tensors[f"{split}_inputs"] = torch.from_numpy(np.ascontiguousarray(of_split)).to(device)
        tensors[f"{split}_labels"] = torch.from_numpy(labels).to(device)
    if first := int(torch.cat([tensors[f"{split}_labels"] for split in inputs]).min()):
        raise DataError(f"{name}: expected labels from 0 on; got {first} as the smallest")
    return Dataset(name=name, sha256=sha256, **tensors)


def _checked(name: str, split: str, labels: np.ndarray) -> np.ndarray:
    """``labels`` as int64; public data may be a test set alone.

    ``DataError`` unless they are whole numbers from 0, less than :data:`MOST_CLASSES`, and there are some.
    """
    if not len(labels) and split == "test":
        raise DataError(f"{name}: expected at least one test example; got none")
    whole = np.issubdtype(labels.dtype, np.integer)
    if not whole or (len(labels) and not (labels.min() >= 0 and labels.max() < MOST_CLASSES)):
        got = f" from {labels.min()} to {labels.max()}" if whole else ""
        raise DataError(
            f"{name}: expected {split} labels that are whole numbers from 0 to {MOST_CLASSES - 1}; "
            f"got {labels.dtype}{got}"
        )
    return labels.astype(np.int64)


@lru_cache(maxsize=4)
def _generated_images(name: str, device: str) -> Dataset:
    arrays = GENERATED_IMAGES[name]()
    together = np.concatenate([arrays["train_images"], arrays["test_images"]])
    return _of_images(name, hashlib.sha256(together.tobytes()).hexdigest(), arrays, device)


@lru_cache(maxsize=4)
def _topics(device: str) -> Dataset:
    arrays, vectors = text.topics()
    inputs = {split: arrays[f"{split}_inputs"] for split in ("train", "test")}
    sha256 = hashlib.sha256(b"".join(inputs[split].tobytes() for split in inputs)).hexdigest()
    return replace(_on(device, "topics", sha256, arrays, inputs, vectors), assumes_of_words=PUBLIC_WORDS)


def _download(name: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as cache:
            arrays = DOWNLOADS[name](cache)
            part = Path(cache) / path.name
            np.savez(part, **arrays)
            os.replace(part, path)
    except Exception as error:  # whatever a mirror, what parses it or a disk has to say
        why = " ".join(f"{type(error).__name__}: {error}".split())  # torchvision's goes over many lines
        raise DataError(
            f"{path}: no such file, and the download of {name} failed ({why}); "
            f"put {path.name} there, or set ${FOLDER_VARIABLE} to the folder that holds it"
        ) from error
