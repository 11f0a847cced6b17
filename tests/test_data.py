"""Data sets: resident tensors, and one clear line when a file is missing or damaged."""

import re
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import make_run

from lib import data
from lib.data import DataError, _images
from lib.data import _text as text
from lib.generators import generator
from lib.train import train

ARRAYS = {
    "train_images": np.arange(6 * 28 * 28, dtype=np.uint8).reshape(6, 28, 28),
    "train_labels": np.array([0, 1, 2, 0, 1, 2], np.uint8),
    "test_images": np.zeros((3, 28, 28), np.uint8),
    "test_labels": np.array([0, 1, 2], np.uint8),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def offline(cache: str) -> dict:
    raise OSError("no route to host")


def test_digits_fit_the_mnist_models():
    digits = data.load("digits")
    assert digits.train_inputs.shape == (1437, 1, 28, 28)
    assert digits.test_inputs.shape == (360, 1, 28, 28)
    assert digits.train_inputs.dtype == torch.uint8
    assert digits.train_labels.dtype == torch.int64
    assert digits.classes == 10
    assert digits.train_inputs.max() == 255
    assert int(digits.train_inputs[:, :, :2].max()) == 0


def test_stripes_are_small_images_in_colour_that_can_be_told_apart():
    stripes = data.load("stripes_rgb")
    assert stripes.train_inputs.shape == (800, 3, 8, 8)
    assert stripes.classes == 8
    assert torch.equal(stripes.train_inputs, data.load("stripes_rgb").train_inputs)


def test_a_file_in_the_folder_is_read(folder):
    np.savez(folder / "mnist.npz", **ARRAYS)
    mnist = data.load("mnist")
    assert mnist.train_inputs.shape == (6, 1, 28, 28)
    assert mnist.train_labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert mnist.train_inputs[1, 0, 0, 0] == ARRAYS["train_images"][1, 0, 0]
    assert len(mnist.sha256) == 64


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_class_counts_of_which_one_split_alone_has_examples(folder, split):
    labels = ARRAYS[f"{split}_labels"].copy()
    labels[-1] = 3
    np.savez(folder / "mnist.npz", **ARRAYS | {f"{split}_labels": labels})
    assert data.load("mnist").classes == 4


def test_a_tilde_in_the_name_of_the_folder_is_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(data.FOLDER_VARIABLE, "~/mine")
    assert data.folder() == tmp_path / "mine"


def test_a_changed_file_is_read_again_and_has_another_hash(folder):
    np.savez(folder / "mnist.npz", **ARRAYS)
    first = data.load("mnist")
    np.savez(folder / "mnist.npz", **ARRAYS | {"test_labels": np.array([2, 1, 0], np.uint8)})
    second = data.load("mnist")
    assert second.test_labels.tolist() == [2, 1, 0]
    assert first.sha256 != second.sha256


def test_kmnist_may_have_its_test_images_only(folder):
    np.savez(folder / "kmnist.npz", test_images=ARRAYS["test_images"], test_labels=ARRAYS["test_labels"])
    assert len(data.load("kmnist").train_labels) == 0
    assert data.load("kmnist").test_inputs.shape == (3, 1, 28, 28)
    with pytest.raises(ValueError, match="dataset: expected one with training examples; got 'kmnist', which has none"):
        train(make_run(dataset="kmnist"))


def test_a_missing_file_is_downloaded_once_and_kept(folder, monkeypatch):
    monkeypatch.setitem(data.DOWNLOADS, "mnist", lambda cache: dict(ARRAYS))
    first = data.load("mnist")
    monkeypatch.setitem(data.DOWNLOADS, "mnist", offline)
    assert data.load("mnist").sha256 == first.sha256
    assert [path.name for path in folder.iterdir()] == ["mnist.npz"]


def test_offline_the_error_says_which_file_where_and_what_to_do(folder, monkeypatch):
    monkeypatch.setitem(data.DOWNLOADS, "mnist", offline)
    with pytest.raises(DataError) as refused:
        data.load("mnist")
    message = str(refused.value)
    assert str(folder / "mnist.npz") in message
    assert "no route to host" in message
    assert f"set ${data.FOLDER_VARIABLE}" in message
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:500]), "expected an .npz file"),
        (lambda path: path.write_bytes(b""), "expected an .npz file"),
        (lambda path: np.savez(path, test_images=ARRAYS["test_images"]), "train_images is not a file"),
        (lambda path: np.savez(path, **ARRAYS | {"train_labels": ARRAYS["test_labels"]}), "with one label each"),
        (lambda path: np.savez(path, **ARRAYS | {"test_images": np.zeros((3, 28, 28))}), "expected uint8 test images"),
        *(
            (lambda path, changes=changes: np.savez(path, **ARRAYS | changes), message)
            for changes, message in (
                ({"test_labels": np.array([0, 1, 2.5])}, "whole numbers from 0 to 999; got float64$"),
                ({"test_labels": np.array(["a", "b", "c"])}, "whole numbers from 0 to 999; got <U1$"),
                ({"test_labels": np.array([0, -1, 2])}, "from 0 to 999; got int64 from -1 to 2"),
                ({"test_labels": np.array([0, 1000, 2])}, "from 0 to 999; got int64 from 0 to 1000"),
                ({f"test_{kind}": ARRAYS[f"test_{kind}"][:0] for kind in ("images", "labels")}, "one test example"),
                ({f"{s}_labels": ARRAYS[f"{s}_labels"] + 1 for s in ("train", "test")}, "labels from 0 on; got 1 as"),
                ({"test_images": np.zeros((3, 32, 32), np.uint8)}, "expected images of one size"),
                ({"train_images": np.zeros((6, 3, 32, 32), np.uint8)}, "1 or 3 channels last"),
                ({"train_images": np.zeros((6, 28, 28, 4), np.uint8)}, "1 or 3 channels last"),
            )
        ),
    ],
)
def test_a_damaged_file_is_refused(folder, damage, message):
    path = folder / "mnist.npz"
    np.savez(path, **ARRAYS)
    damage(path)
    with pytest.raises(DataError, match=message):
        data.load("mnist")
    assert path.exists()


def test_a_compressed_file_with_other_bytes_inside_is_refused(folder):
    path = folder / "mnist.npz"
    np.savez_compressed(path, **ARRAYS)
    content = bytearray(path.read_bytes())
    content[70:90] = b"\xff" * 20  # at the beginning of the first array
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"mnist\.npz: expected an \.npz file with .*; got error: Error -3 while"):
        data.load("mnist")


@pytest.mark.parametrize(
    ("after", "byte", "error"),
    [(b"PK\x01\x02......", b"\x63", "NotImplementedError"), (rb"'shape': \(\d+,.*?\), ", b"{", "TokenError")],
    ids=["compression", "header"],
)
def test_what_libraries_say_of_a_damaged_file_names_it(after, byte, error, folder):
    path = folder / "mnist.npz"
    np.savez(path, **ARRAYS)
    whole = path.read_bytes()
    at = re.search(after, whole, re.DOTALL).end()
    path.write_bytes(whole[:at] + byte + whole[at + 1 :])
    with pytest.raises(DataError, match=rf"mnist\.npz: expected an \.npz file with .*; got {error}"):
        data.load("mnist")


def test_an_array_in_an_archive_s_place_is_refused(folder):
    with (folder / "mnist.npz").open("wb") as file:
        np.save(file, ARRAYS["test_labels"])
    with pytest.raises(DataError, match=r"mnist.npz: expected an .npz file with .*; got TypeError"):
        data.load("mnist")


@pytest.mark.parametrize("left_out", ["train_labels", "test_images"])
def test_public_images_without_their_labels_or_test_split_are_refused_by_name(folder, left_out):
    """KMNIST's file may do without the training split, but not without half of it."""
    np.savez(folder / "kmnist.npz", **{name: array for name, array in ARRAYS.items() if name != left_out})
    with pytest.raises(DataError, match=rf"kmnist\.npz: expected an \.npz file with .*; got KeyError: .*{left_out}"):
        data.load("kmnist")


def test_texts_that_are_not_utf_8_are_refused_by_name(folder):
    texts = np.frombuffer(b"a word\nand \xff", np.uint8)
    labels = np.zeros(2, np.int64)
    split = {"text": texts, "labels": labels}
    np.savez(folder / "ag_news.npz", **{f"{s}_{kind}": a for s in ("train", "test") for kind, a in split.items()})
    with pytest.raises(DataError, match="ag_news_random_vectors: expected train_text in UTF-8; got 'utf-8' codec"):
        data.load("ag_news_random_vectors")


def test_a_folder_in_a_files_place_is_refused(folder):
    (folder / "mnist.npz").mkdir()
    with pytest.raises(DataError, match=r"mnist.npz: expected an .npz file with .*; got IsADirectoryError"):
        data.load("mnist")


def test_a_file_of_ones_own_is_a_data_set_and_what_is_not_one_is_refused(folder):
    np.savez(folder / "mine.npz", **ARRAYS)
    np.savez(folder / "my-own.npz", **ARRAYS)
    np.savez(folder / "glove.npz", **ARRAYS)
    for name in ("mine", "my-own"):
        assert len(data.load(name).train_labels) == len(ARRAYS["train_labels"])
    for name in ("yours", "glove", "../mine", ""):
        with pytest.raises(DataError, match=f"unknown data set '{name}'; .*, or the name of an .npz file of images in"):
            data.load(name)
    (folder / "mine.npz").write_bytes(b"")
    with pytest.raises(DataError, match=r"mine\.npz: expected an \.npz file with [^;]*; got EOFError: [^;]*$"):
        data.load("mine")


def test_an_unknown_data_set_is_refused():
    with pytest.raises(
        DataError,
        match="unknown data set 'minst'; expected one of digits, digits_rgb, stripes_rgb, topics, ag_news, "
        "ag_news_random_vectors, cifar10, cifar100, kmnist, mnist",
    ):
        data.load("minst")


def test_held_out_examples_replace_the_test_set():
    digits = data.load("digits")
    tuning = digits.hold_out(297, generator(0, "validation split"))
    assert (len(tuning.train_labels), len(tuning.test_labels)) == (1140, 297)
    both = torch.cat([tuning.train_inputs, tuning.test_inputs]).flatten(1)
    everything = digits.train_inputs.flatten(1)
    assert sorted(map(bytes, both.numpy())) == sorted(map(bytes, everything.numpy()))
    with pytest.raises(ValueError, match="validation_examples: expected 1 to 1436 of digits's training set; got 1437"):
        digits.hold_out(1437, generator(0, "validation split"))


def test_public_examples_are_taken_out_of_the_training_set():
    digits = data.load("digits")
    rest, (images, labels) = digits.without("public_examples", 100, generator(0, "public split"))
    assert (len(rest.train_labels), len(labels)) == (1337, 100)
    both = torch.cat([rest.train_inputs, images]).flatten(1)
    assert sorted(map(bytes, both.numpy())) == sorted(map(bytes, digits.train_inputs.flatten(1).numpy()))
    assert torch.equal(rest.test_inputs, digits.test_inputs)
    with pytest.raises(ValueError, match="public_examples: expected 1 to 1436 of digits's training set; got 1437"):
        digits.without("public_examples", 1437, generator(0, "public split"))


def test_coloured_digits_are_the_digits_in_three_channels():
    grey, coloured = data.load("digits"), data.load("digits_rgb")
    assert coloured.train_inputs.shape == (1437, 3, 8, 8)
    assert torch.equal(coloured.train_inputs[:, 1], grey.train_inputs[:, 0, 2:26:3, 2:26:3])
    assert coloured.sha256 != grey.sha256


def test_inputs_are_between_0_and_1():
    assert data.as_input(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist() == pytest.approx([0, 0.2, 1])


WORDS = {
    "words": np.frombuffer(b"the\ncat\nsat\n.", np.uint8),
    "vectors": np.array([[1, 0], [0, 1], [1, 1], [2, 2]], np.float32),
}
TEXTS = {
    "train_text": np.frombuffer(b"The cat sat.\nA dog!", np.uint8),
    "train_labels": np.array([0, 1], np.uint8),
    "test_text": np.frombuffer(("cat " * 30).encode(), np.uint8),
    "test_labels": np.array([3], np.uint8),
}


def test_texts_are_the_indices_of_their_first_20_words(folder):
    np.savez(folder / "ag_news.npz", **TEXTS | {"test_text": np.frombuffer(b"cat " * 20 + b"sat " * 10, np.uint8)})
    np.savez(folder / "glove.npz", **WORDS)
    news = data.load("ag_news")
    assert news.train_inputs.shape == (2, 20)
    assert news.train_inputs[0].tolist() == [2, 3, 4, 5] + [0] * 16
    assert news.train_inputs[1].tolist() == [1, 1, 1] + [0] * 17  # "a", "dog", "!" have no vectors
    assert news.test_inputs[0].tolist() == [3] * 20
    assert news.vectors[2:].tolist() == WORDS["vectors"].tolist()
    assert news.vectors[0].tolist() == [0, 0]
    assert news.vectors[1].tolist() == [1, 1]  # the mean
    assert news.size == "2 training examples, 6 word vectors of 2 dimensions"
    before = news.sha256
    np.savez(folder / "glove.npz", **WORDS | {"vectors": 2 * WORDS["vectors"]})
    assert data.load("ag_news").sha256 != before


def test_a_private_vocabulary_tells_which_words_the_training_texts_have(folder):
    np.savez(folder / "ag_news.npz", **TEXTS | {"test_text": np.frombuffer(b"the cat on a dog", np.uint8)})
    words = {"words": np.frombuffer(b"the\ncat\nsat\non", np.uint8), "vectors": WORDS["vectors"]}
    np.savez(folder / "glove.npz", **words)
    news = data.load("ag_news")
    assert news.test_inputs[0, :5].tolist() == [2, 3, 5, 1, 1]
    own = news.of_its_own_words()
    assert own.test_inputs[0].tolist() == [2, 3, 1, 1, 1] + [0] * 15  # "on" is in no training text
    assert own.train_inputs is news.train_inputs
    assert "which is theirs, are public" in news.assumes
    assert "is not counted" in own.assumes
    with pytest.raises(ValueError, match="vocabulary: expected 'public' for data set 'digits', which has no texts"):
        data.load("digits").of_its_own_words()


def test_random_vectors_need_neither_a_file_nor_a_vocabulary(folder):
    np.savez(folder / "ag_news.npz", **TEXTS)
    news = data.load("ag_news_random_vectors")
    the, cat, sat = news.train_inputs[0, :3].tolist()
    assert len({the, cat, sat}) == 3
    assert min(the, cat, sat) >= 2
    assert news.test_inputs[0].tolist() == [cat] * 20
    assert news.vectors.shape == (20_002, 50)
    assert news.vectors[0].abs().max() == 0
    assert 0.99 < news.vectors[2:].std() < 1.01
    assert news.assumes == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels": np.array([0], np.uint8)}, "ag_news: expected one label for each of 2 train texts"),
        ({"vectors": WORDS["vectors"][:3]}, "ag_news: expected one vector for each of 4 words; got vectors"),
    ],
)
def test_texts_that_do_not_fit_are_refused(folder, changes, message):
    arrays = TEXTS | WORDS | changes
    np.savez(folder / "ag_news.npz", **{name: arrays[name] for name in TEXTS})
    np.savez(folder / "glove.npz", **{name: arrays[name] for name in WORDS})
    with pytest.raises(DataError, match=message):
        data.load("ag_news")


def test_a_text_set_needs_its_word_vectors(folder, monkeypatch):
    np.savez(folder / "ag_news.npz", **TEXTS)
    monkeypatch.setitem(data.DOWNLOADS, "glove", offline)
    with pytest.raises(DataError, match=r"glove.npz: no such file, and the download of glove failed"):
        data.load("ag_news")


def test_the_made_up_texts_can_be_told_apart():
    topics = data.load("topics")
    assert topics.classes == 4
    own = [set(topics.train_inputs[topics.train_labels == k].unique().tolist()) for k in range(4)]
    shared = set.intersection(*own)
    assert all(len(words - shared) == 12 for words in own)


def test_ag_news_is_downloaded_with_title_and_description_joined(folder, monkeypatch):
    (folder / "train.csv").write_text('"3","Bears\\claw","Short-sellers, ""cynics""\n again"\n"1","NA","b"\n')
    (folder / "test.csv").write_text('"4","One","line"\n')
    monkeypatch.setattr("lib.data._downloads.AG_NEWS", f"{folder}/{{split}}.csv")
    np.savez(folder / "glove.npz", **WORDS)
    news = data.load("ag_news")
    assert news.train_labels.tolist() == [2, 0]
    with np.load(folder / "ag_news.npz") as file:
        assert bytes(file["train_text"]).decode().split("\n") == ['Bears claw Short-sellers, "cynics" again', "NA b"]
    assert news.test_labels.tolist() == [3]


def test_word_vectors_are_downloaded_through_torchtext(folder, monkeypatch):
    class GloVe:
        itos = ("the", "cat")
        vectors = torch.tensor([[1.0, 2.0], [3.0, 4.0]])

        def __init__(self, *, name: str, dim: int, cache: str) -> None:
            assert (name, dim) == ("6B", 100)

    monkeypatch.setattr("torchtext.vocab.GloVe", GloVe)
    np.savez(folder / "ag_news.npz", **TEXTS)
    assert data.load("ag_news").vectors[2:].tolist() == GloVe.vectors.tolist()
    assert (folder / "glove.npz").exists()


def bytes_of(words: str) -> np.ndarray:
    return np.frombuffer(words.encode(), np.uint8)


def test_padding_is_no_word_even_where_no_training_text_is_padded(folder):
    labels = {"train_labels": np.array([0], np.uint8), "test_labels": np.array([1], np.uint8)}
    np.savez(folder / "ag_news.npz", train_text=bytes_of("the cat " * 10), test_text=bytes_of("the"), **labels)
    np.savez(folder / "glove.npz", words=bytes_of("the\ncat"), vectors=np.eye(2, dtype=np.float32))
    own = data.load("ag_news").of_its_own_words()
    assert own.test_inputs[0].tolist() == [2] + [text.PADDING] * 19


def test_a_hash_is_the_same_in_every_process_and_never_that_of_padding_or_unknown():
    first = next(f"w{i}" for i in range(10**6) if zlib.crc32(f"w{i}".encode()) % text.HASHES == 0)
    (row,) = text.indices([f"the cat {first}"], None)
    assert row[:3].tolist() == [zlib.crc32(word.encode()) % text.HASHES + 2 for word in ("the", "cat", first)]
    assert row[2] == 2


def test_what_is_made_up_is_the_same_in_every_process():
    for make in (_images.stripes, lambda: text.topics()[0], lambda: {"vectors": text.random_vectors()}):
        first, again = make(), make()
        assert all(np.array_equal(first[name], again[name]) for name in first)


@pytest.mark.parametrize(
    ("name", "source"), [("mnist", "MNIST"), ("kmnist", "KMNIST"), ("cifar10", "CIFAR10"), ("cifar100", "CIFAR100")]
)
def test_images_are_downloaded_from_their_own_source_split_by_split(name, source, monkeypatch):
    asked = []

    def download(cache, *, train, download):
        asked.append(train)
        return SimpleNamespace(data=np.full((2, 4, 4), train, np.uint8), targets=[0, 1])

    monkeypatch.setattr(f"torchvision.datasets.{source}", download)
    arrays = data.DOWNLOADS[name]("cache")
    assert asked == ([False] if name == "kmnist" else [True, False])
    for split in {key.partition("_")[0] for key in arrays}:
        assert (arrays[f"{split}_images"] == (split == "train")).all()


def test_what_is_held_out_is_drawn_from_all_and_not_the_first():
    digits = data.load("digits")
    (first, _), (other, _) = (digits.without("public_examples", 100, generator(seed, "split"))[1] for seed in (0, 1))
    assert not torch.equal(first, other)
    assert not torch.equal(first, digits.train_inputs[:100])


def test_made_up_texts_say_that_their_vocabulary_is_taken_for_public():
    assert "vocabulary" in data.load("topics").assumes
