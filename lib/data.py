"""Data sets as uint8 tensors that already lie on the device.

``load(name)`` looks for ``<name>.npz`` in ``$DP_COMPANION_DATA`` (default: ``data/`` in the current folder, then in
the repository).  If it is absent it is downloaded through torchvision and written there once.  No data set is ever
swapped for another.  ``digits`` ships inside scikit-learn and is made at once: small real images for the smoke tier.

    >>> digits = load("digits")
    >>> digits.train_images.shape, digits.train_images.dtype
    (torch.Size([1437, 1, 28, 28]), torch.uint8)
"""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FOLDER_VARIABLE = "DP_COMPANION_DATA"
GENERATED = ("digits", "digits_rgb")  # from scikit-learn, without a file

Examples = tuple[Tensor, Tensor]  # images and labels


class DataError(Exception):
    """A data file that is missing or not what it should be; the message says which, where, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Images uint8 ``(N, C, H, W)``, labels int64 ``(N,)``, and the SHA-256 of the file they came from."""

    name: str
    sha256: str
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return int(self.test_labels.max()) + 1

    def hold_out(self, examples: int, generator: torch.Generator) -> "Dataset":
        """The same data with ``examples`` random training examples in the place of the test set, which is gone.

        Tuning runs train on this, so they cannot look at the test set.
        """
        rest, (images, labels) = self.without("validation_examples", examples, generator)
        return replace(rest, test_images=images, test_labels=labels)

    def without(self, field: str, examples: int, generator: torch.Generator) -> tuple["Dataset", Examples]:
        """The same data without ``examples`` random training examples, and those; ``field`` asked for that many."""
        n = len(self.train_labels)
        if not 0 < examples < n:
            raise ValueError(f"{field}: expected 1 to {n - 1} of {self.name}'s training set; got {examples}")
        order = torch.randperm(n, generator=generator).to(self.train_labels.device)
        taken, kept = order[:examples], order[examples:]
        rest = replace(self, train_images=self.train_images[kept], train_labels=self.train_labels[kept])
        return rest, (self.train_images[taken], self.train_labels[taken])


def as_input(images: Tensor) -> Tensor:
    """uint8 images as floats in [0, 1], what every model takes."""
    return images.float().div_(255)


def load(name: str, *, device: torch.device | str = "cpu") -> Dataset:
    """The data set ``name``, resident on ``device``; ``DataError`` if its file is missing, damaged or unknown."""
    if name in GENERATED:
        return _digits(name, str(device))
    if name not in DOWNLOADS:
        raise DataError(f"unknown data set {name!r}; expected one of {', '.join([*GENERATED, *sorted(DOWNLOADS)])}")
    path = folder() / f"{name}.npz"
    if not path.exists():
        _download(name, path)
    return _read(name, path, path.stat().st_mtime_ns, str(device))


def folder() -> Path:
    """Where data files are looked for and downloaded to."""
    if FOLDER_VARIABLE in os.environ:
        return Path(os.environ[FOLDER_VARIABLE]).expanduser()
    here = Path("data")
    return here.resolve() if here.is_dir() else Path(__file__).resolve().parent.parent / "data"


@lru_cache(maxsize=4)
def _read(name: str, path: Path, _modified: int, device: str) -> Dataset:
    keys = ("train_images", "train_labels", "test_images", "test_labels")
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            # KMNIST serves as public images only, and its file may hold the test split alone.
            arrays = {key: file[key] for key in keys if key in file or name != "kmnist"}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: expected an .npz file with {', '.join(keys)}; got {type(error).__name__}: {error}; "
            "delete it to download it again"
        ) from error
    if "train_images" not in arrays:
        arrays |= {"train_images": arrays["test_images"][:0], "train_labels": arrays["test_labels"][:0]}
    return _dataset(name, hashlib.sha256(path.read_bytes()).hexdigest(), arrays, device)


def _dataset(name: str, sha256: str, arrays: dict[str, np.ndarray], device: str) -> Dataset:
    for split in ("train", "test"):
        images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
        if images.dtype != np.uint8 or images.ndim not in (3, 4) or labels.shape != images.shape[:1]:
            raise DataError(
                f"{name}: expected uint8 {split} images (N, H, W[, C]) with one label each; "
                f"got {images.dtype} {images.shape} with labels {labels.shape}"
            )
        images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
        arrays[f"{split}_images"] = torch.from_numpy(np.ascontiguousarray(images)).to(device)
        arrays[f"{split}_labels"] = torch.from_numpy(labels.astype(np.int64)).to(device)
    return Dataset(name=name, sha256=sha256, **arrays)


@lru_cache(maxsize=4)
def _digits(name: str, device: str) -> Dataset:
    """scikit-learn's 1,797 digits of 8×8, each pixel repeated 3×3 and padded by 2 to 28×28, so that MNIST's models fit;
    ``digits_rgb`` is 8×8 in three equal channels, small images for CIFAR-10's models.
    """
    from sklearn.datasets import load_digits

    source = load_digits()
    images = (source.images * 255 / 16).round().astype(np.uint8)
    if name == "digits_rgb":
        images = np.stack([images] * 3, axis=3)
    else:
        images = np.pad(images.repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2)))
    labels, split = source.target, 1437  # four fifths; the file's order mixes writers and classes
    arrays = {
        "train_images": images[:split],
        "train_labels": labels[:split],
        "test_images": images[split:],
        "test_labels": labels[split:],
    }
    return _dataset(name, hashlib.sha256(images.tobytes()).hexdigest(), arrays, device)


def _vision(name: str, splits: tuple[str, ...] = ("train", "test")) -> Callable[[str], dict[str, np.ndarray]]:
    def download(cache: str) -> dict[str, np.ndarray]:
        from torchvision import datasets

        arrays = {}
        for split in splits:
            source = getattr(datasets, name)(cache, train=split == "train", download=True)
            arrays[f"{split}_images"] = np.asarray(source.data, np.uint8)
            arrays[f"{split}_labels"] = np.asarray(source.targets, np.uint8)
        return arrays

    return download


DOWNLOADS = {
    "mnist": _vision("MNIST"),
    "kmnist": _vision("KMNIST", splits=("test",)),
    "cifar10": _vision("CIFAR10"),
}


def _download(name: str, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as cache:
            arrays = DOWNLOADS[name](cache)
            part = Path(cache) / path.name
            np.savez(part, **arrays)
            os.replace(part, path)
    except (OSError, RuntimeError) as error:  # no network, no such mirror, a full disk
        raise DataError(
            f"{path}: no such file, and the download of {name} failed ({type(error).__name__}: {error}); "
            f"put {path.name} there, or set ${FOLDER_VARIABLE} to the folder that holds it"
        ) from error
