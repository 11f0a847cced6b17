"""Where the data sets come from: ``DOWNLOADS[name](cache)`` fetches one and returns the arrays of its file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from lib.data import _text as text

# torchtext 0.6.0's own address of AG News answers no more; these are the files that it led to.
AG_NEWS = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/{split}.csv"


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


def _ag_news(cache: str) -> dict[str, np.ndarray]:
    import pandas as pd

    arrays = {}
    for split in ("train", "test"):
        how = {"header": None, "names": ["label", "title", "description"], "keep_default_na": False}  # "NA" is a word
        frame = pd.read_csv(AG_NEWS.format(split=split), **how)
        arrays[f"{split}_labels"] = (frame["label"] - 1).to_numpy(np.uint8)
        joined = frame["title"].str.cat(frame["description"], sep=" ").str.replace("\\", " ", regex=False)
        arrays[f"{split}_text"] = text.stored([" ".join(line.split()) for line in joined])
    return arrays


def _glove(cache: str) -> dict[str, np.ndarray]:
    """GloVe 6B, 100 dimensions (822 MB on the way)."""
    from torchtext.vocab import GloVe

    vectors = GloVe(name="6B", dim=100, cache=str(Path(cache) / "glove"))
    return {"words": text.stored(vectors.itos), "vectors": vectors.vectors.numpy()}


DOWNLOADS = {
    "mnist": _vision("MNIST"),
    "kmnist": _vision("KMNIST", splits=("test",)),
    "cifar10": _vision("CIFAR10"),
    "cifar100": _vision("CIFAR100"),
    "ag_news": _ag_news,
    "glove": _glove,
}
