"""Crops, flips and scaling against one image at a time."""

import pytest
import torch
import torch.nn.functional as F

from lib import data
from lib.data import as_input
from lib.preprocessing import STANDARDS, Preprocessing


def images(size: int = 32, channels: int = 3, examples: int = 200) -> torch.Tensor:
    return torch.randint(1, 256, (examples, channels, size, size), dtype=torch.uint8)


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_without_augmentation_images_are_only_scaled():
    x, plain = images(28, 1), Preprocessing("mnist", "none", "unit")
    assert torch.equal(plain.training(x, seeded()), as_input(x))
    assert torch.equal(plain.testing(x), as_input(x))


@pytest.mark.parametrize("shape", [(28, 36), (16, 16)])
@pytest.mark.parametrize("of", ["training", "testing"])
def test_images_of_which_no_crop_can_be_cut_are_refused(shape, of):
    crops, x = Preprocessing("mine", "crop", "unit"), torch.zeros(2, 3, *shape, dtype=torch.uint8)
    with pytest.raises(ValueError, match=f"augmentation: expected 'none' for images of {shape[0]}×{shape[1]}"):
        crops.training(x, seeded()) if of == "training" else crops.testing(x)


@pytest.mark.parametrize("size", [8, 28, 32])
def test_shifts_move_an_image_by_up_to_a_pixel_each_way(size):
    x, shifts = images(size, 1), Preprocessing("digits_rgb" if size == 8 else "mnist", "shift", "unit")
    found = (shifts.training(x, seeded()) * 255).round().to(torch.uint8)
    moved = [
        [(i, j) for i in range(3) for j in range(3) if torch.equal(padded[:, i : i + size, j : j + size], shifted)]
        for padded, shifted in zip(F.pad(x, [1] * 4), found, strict=True)
    ]
    assert {place for (place,) in moved} == {(i, j) for i in range(3) for j in range(3)}
    assert torch.equal(shifts.testing(x), as_input(x))


@pytest.mark.parametrize("size", [8, 28, 32])
@pytest.mark.parametrize("augmentation", ["crop", "crop_and_flip"])
def test_every_image_is_one_of_its_crops(augmentation, size):
    dataset, cut, padding = ("digits_rgb", 8, 1) if size == 8 else ("cifar10", 32, 4)
    x = images(size)
    found = (Preprocessing(dataset, augmentation, "unit").training(x, seeded()) * 255).round().to(torch.uint8)
    padded, places, mirrored = F.pad(x, [padding] * 4), size + 2 * padding - cut + 1, 0
    offsets = set()
    for image, crop in zip(padded, found, strict=True):
        windows = image.unfold(1, cut, 1).unfold(2, cut, 1).permute(1, 2, 0, 3, 4)  # (places, places, C, cut, cut)
        plain = (windows == crop).all(dim=(2, 3, 4)).nonzero().tolist()
        flipped = (windows == crop.flip(2)).all(dim=(2, 3, 4)).nonzero().tolist()
        assert plain or flipped
        mirrored += not plain
        offsets |= {tuple(place) for place in plain or flipped}
    assert (mirrored == 0) == (augmentation == "crop")
    assert mirrored == 0 or 70 <= mirrored <= 130  # half of 200, four standard errors
    assert {row for row, _ in offsets} == {column for _, column in offsets} == set(range(places))


@pytest.mark.parametrize(("dataset", "size"), [("cifar10", 32), ("digits_rgb", 8)])
def test_the_tf_tutorials_crops_are_24_by_24(dataset, size):
    x, crops = images(size), Preprocessing(dataset, "crop_24_and_flip", "unit")
    found = (crops.training(x, seeded()) * 255).round().to(torch.uint8)
    padded = F.pad(x, [9] * 4) if size == 8 else x
    offsets, mirrored = set(), 0
    for image, crop in zip(padded, found, strict=True):
        windows = image.unfold(1, 24, 1).unfold(2, 24, 1).permute(1, 2, 0, 3, 4)  # (places, places, C, 24, 24)
        plain = (windows == crop).all(dim=(2, 3, 4)).nonzero().tolist()
        flipped = (windows == crop.flip(2)).all(dim=(2, 3, 4)).nonzero().tolist()
        assert plain or flipped
        mirrored += not plain
        offsets |= {tuple(place) for place in plain or flipped}
    assert {row for row, _ in offsets} == {column for _, column in offsets} == set(range(len(padded[0, 0]) - 23))
    assert 70 <= mirrored <= 130
    centre = padded[:, :, 4:28, 4:28] if size == 32 else padded[:, :, 1:25, 1:25]
    assert torch.equal(crops.testing(x), as_input(centre))


def test_features_stay_what_they_are():
    features = torch.tensor([[0.5, -3.0]], dtype=torch.float16)
    as_is = Preprocessing("cifar10", "none", "as_is")
    assert torch.equal(as_is.testing(features), features.float())
    assert as_is.training(features, seeded()).dtype == torch.float32


def test_draws_come_from_the_generator():
    x, crops = images(), Preprocessing("cifar10", "crop_and_flip", "unit")
    assert torch.equal(crops.training(x, seeded()), crops.training(x, seeded()))
    assert not torch.equal(crops.training(x, seeded()), crops.training(x, torch.Generator().manual_seed(1)))


def test_test_images_have_the_size_of_the_crops():
    x, crops = images(28, 1), Preprocessing("mnist", "crop", "unit")
    assert torch.equal(crops.testing(x), as_input(F.pad(x, [2] * 4)))
    x = images(32, 3)
    assert torch.equal(Preprocessing("cifar10", "crop", "unit").testing(x), as_input(x))


@pytest.mark.parametrize("augmentation", ["shift", "crop", "crop_and_flip", "crop_24_and_flip"])
def test_crops_are_laid_out_channels_last(augmentation):
    x, crops = images(), Preprocessing("cifar10", augmentation, "standardised")
    for laid_out in (crops.training(x, seeded()), crops.testing(x)):
        assert laid_out.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("name", "augmentation"), [("digits", "none"), ("digits_rgb", "none"), ("stripes_rgb", "none")]
)
def test_standardised_pixels_have_mean_0_and_standard_deviation_1(name, augmentation):
    x = Preprocessing(name, augmentation, "standardised").testing(data.load(name).train_inputs)
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(x.shape[1]), atol=1e-3, rtol=0)
    torch.testing.assert_close(x.std((0, 2, 3)), torch.ones(x.shape[1]), atol=1e-3, rtol=0)


def test_bc_prints_these_standards():
    assert STANDARDS["mnist"] == ((0.1307,), (0.3081,))
    assert STANDARDS["cifar10"] == ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))


def test_words_become_their_vectors_and_nothing_else_is_done():
    vectors = torch.randn(5, 3)
    texts = Preprocessing("topics", "none", "unit", vectors)
    x = torch.tensor([[4, 1, 0]])
    assert torch.equal(texts.testing(x), vectors[x])
    assert torch.equal(texts.training(x, seeded()), vectors[x])
    with pytest.raises(ValueError, match="augmentation: expected 'none' for texts; got 'crop'"):
        Preprocessing("topics", "crop", "unit", vectors)


def test_images_without_standards_are_not_standardised():
    message = "input_scale: expected 'unit' for all but mnist, .*, stripes_rgb; got 'standardised' for 'kmnist'"
    with pytest.raises(ValueError, match=message):
        Preprocessing("kmnist", "none", "standardised")


def test_cifar100s_standards_are_those_of_its_training_images():
    """As computed from the file, which tests do not have."""
    assert STANDARDS["cifar100"] == ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))


def test_images_are_padded_with_black_before_they_are_scaled():
    """As torchvision's RandomCrop before Normalize: the border of a standardised image is not 0."""
    x, crops = torch.full((200, 1, 28, 28), 255, dtype=torch.uint8), Preprocessing("mnist", "crop", "standardised")
    black, white = (0 - 0.1307) / 0.3081, (1 - 0.1307) / 0.3081
    for found in (crops.testing(x), crops.training(x, seeded())):
        values = found.unique()
        torch.testing.assert_close(values, torch.tensor([black, white]))
