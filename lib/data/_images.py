"""Small images without a file, for the smoke tier: ``GENERATED[name]()`` makes the arrays of a data set's file."""

from collections.abc import Callable
from functools import partial

import numpy as np

Arrays = dict[str, np.ndarray]


def digits(*, rgb: bool) -> Arrays:
    """scikit-learn's 1,797 digits of 8×8: each pixel repeated 3×3 and padded by 2 to 28×28, so that MNIST's models fit;
    or, with ``rgb``, in three equal channels, small images for CIFAR-10's models.
    """
    from sklearn.datasets import load_digits

    source = load_digits()
    images = (source.images * 255 / 16).round().astype(np.uint8)
    grey = np.pad(images.repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2)))  # 28×28
    images = np.stack([images] * 3, axis=3) if rgb else grey
    split = 1437  # four fifths; the file's order mixes writers and classes
    return _split(images, source.target, split)


def stripes() -> Arrays:
    """1,000 noisy 8×8 gratings in colour, of 4 directions and 2 widths: what is public where the digits are private."""
    draws = np.random.default_rng(0)
    labels = draws.integers(8, size=1000)
    angle, width = np.pi * (labels % 4) / 4, 2.5 + 2 * (labels // 4)
    rows, columns = np.mgrid[:8, :8]
    along = np.cos(angle)[:, None, None] * rows + np.sin(angle)[:, None, None] * columns  # (N, 8, 8)
    phase = draws.uniform(0, 2 * np.pi, size=(1000, 1, 1))
    waves = np.cos(2 * np.pi * along / width[:, None, None] + phase)[..., None]
    colours = draws.uniform(0.4, 1.0, size=(1000, 1, 1, 3))
    values = 128 + 90 * waves * colours + draws.normal(0, 25, size=(1000, 8, 8, 3))
    return _split(values.clip(0, 255).astype(np.uint8), labels, 800)


def _split(images: np.ndarray, labels: np.ndarray, at: int) -> Arrays:
    return {
        "train_images": images[:at],
        "train_labels": labels[:at],
        "test_images": images[at:],
        "test_labels": labels[at:],
    }


GENERATED: dict[str, Callable[[], Arrays]] = {
    "digits": partial(digits, rgb=False),
    "digits_rgb": partial(digits, rgb=True),
    "stripes_rgb": stripes,
}
