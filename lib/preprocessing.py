"""From uint8 images to what a model takes: augmented in training, scaled, all on the device and a batch at a time.

bc's, in torchvision's words: crop 32×32 with padding 4, random horizontal flip, normalise.  The TensorFlow tutorial's,
which abadi and v2 follow on CIFAR-10: crop 24×24, at random and mirrored in training, from the centre in testing.

    >>> images = torch.arange(2 * 28 * 28, dtype=torch.int64).remainder(256).to(torch.uint8).view(2, 1, 28, 28)
    >>> crops = Preprocessing("mnist", augmentation="crop_and_flip", scale="standardised")
    >>> crops.training(images, torch.Generator().manual_seed(0)).shape, crops.testing(images).shape
    (torch.Size([2, 1, 32, 32]), torch.Size([2, 1, 32, 32]))
"""

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.data import as_input

# Size of a crop (0: the image's own) and padding of the image; the 8×8 ones of tier smoke are padded to the size that a
# model needs.
CROPS = {"shift": (0, 1), "crop": (32, 4), "crop_and_flip": (32, 4), "crop_24_and_flip": (24, 0)}
SMALL_CROPS = {"shift": (0, 1), "crop": (8, 1), "crop_and_flip": (8, 1), "crop_24_and_flip": (24, 9)}
SMALL_IMAGES = ("digits_rgb", "stripes_rgb")  # 8×8
STANDARDS = {  # mean and standard deviation of each channel; those of MNIST and CIFAR-10 as bc prints them
    "mnist": ((0.1307,), (0.3081,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "digits": ((0.2244,), (0.3488,)),
    "digits_rgb": ((0.3054,) * 3, (0.3753,) * 3),
    "stripes_rgb": ((0.4999, 0.5008, 0.5000), (0.2026, 0.2019, 0.2034)),
}


@dataclass(frozen=True)
class Preprocessing:
    """What is done to the images of ``dataset``.

    ==============  ====================================================================================================
    augmentation    none | shift: by up to one pixel each way | crop: a random 32×32 crop of the image padded by 4 |
                    crop_and_flip: half of them mirrored | crop_24_and_flip: likewise of a 24×24 crop, without padding
    scale           unit: pixels in [0, 1] | standardised: less the data set's mean, over its standard deviation |
                    as_is: of features (B, D), which are no images any more
    ==============  ====================================================================================================

    Where training crops, test images are padded or cut to the same size, evenly and before they are scaled.  Texts,
    word indices (B, T), become vectors (B, T, D), and nothing else is done to them; ``ValueError`` if more is asked,
    and for images that are to be standardised and are not among :data:`STANDARDS`.
    """

    dataset: str
    augmentation: str
    scale: str
    vectors: Tensor | None = None

    def __post_init__(self) -> None:
        for name, got, expected in (("augmentation", self.augmentation, "none"), ("input_scale", self.scale, "unit")):
            if self.vectors is not None and got != expected:
                raise ValueError(f"{name}: expected {expected!r} for texts; got {got!r}")
        if self.scale == "standardised" and self.dataset not in STANDARDS:
            raise ValueError(
                f"input_scale: expected 'unit' for all but {', '.join(STANDARDS)}; got {self.scale!r} for "
                f"{self.dataset!r}"
            )

    def crop(self, images: Tensor) -> tuple[int, int]:
        """Size of a crop of ``images``, and by how much they are padded before."""
        size, padding = (SMALL_CROPS if self.dataset in SMALL_IMAGES else CROPS)[self.augmentation]
        size, (height, width) = size or images.shape[-1], images.shape[-2:]
        if height != width or size > width + 2 * padding:
            raise ValueError(
                f"augmentation: expected 'none' for images of {height}×{width}, of which no {size}×{size} can be cut "
                f"when they are padded by {padding}; got {self.augmentation!r}"
            )
        return size, padding

    def training(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """uint8 (B, C, H, W) → float, with crops and flips drawn from ``generator``."""
        if self.augmentation != "none":
            images = self._cropped(images, generator)
        return self._scaled(images)

    def testing(self, images: Tensor) -> Tensor:
        """uint8 (B, C, H, W) → float; nothing is random."""
        if self.augmentation != "none":
            missing = self.crop(images)[0] - images.shape[-1]  # less than 0 where the crop is smaller
            # Laid out as the crops of training are, channels last, for which convolutions are twice as fast.
            images = F.pad(images, [missing // 2, missing - missing // 2] * 2).contiguous(
                memory_format=torch.channels_last
            )
        return self._scaled(images)

    def _cropped(self, images: Tensor, generator: torch.Generator) -> Tensor:
        size, padding = self.crop(images)
        padded = F.pad(images, [padding] * 4)
        examples, _, height, width = padded.shape

        def draw(choices: int) -> Tensor:
            return torch.randint(choices, (examples, 1), generator=generator, device=images.device)

        places = torch.arange(size, device=images.device)
        rows, columns = draw(height - size + 1) + places, draw(width - size + 1) + places  # (B, size)
        if self.augmentation.endswith("and_flip"):
            columns = torch.where(draw(2) == 1, columns.flip(1), columns)
        each = torch.arange(examples, device=images.device).view(-1, 1, 1)
        return padded.permute(0, 2, 3, 1)[each, rows.unsqueeze(2), columns.unsqueeze(1)].permute(0, 3, 1, 2)

    def _scaled(self, images: Tensor) -> Tensor:
        if self.vectors is not None:
            return F.embedding(images, self.vectors)
        if self.scale == "as_is":
            return images.float()
        values = as_input(images)
        if self.scale == "unit":
            return values
        mean, std = _standard(self.dataset, images.device)
        return values.sub_(mean).div_(std)


@cache
def _standard(dataset: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the channels, (C, 1, 1) each; copied to a GPU once, which waits for each copy."""
    mean, std = (torch.tensor(of_channels, device=device).view(-1, 1, 1) for of_channels in STANDARDS[dataset])
    return mean, std
