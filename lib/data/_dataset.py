"""A data set, on the device, with what is done to its splits."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lib.data import _text as text

OWN_WORDS = "; the word vectors are public; the vocabulary, the words of the private texts, is not counted"

Examples = tuple[Tensor, Tensor]  # inputs and labels


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Inputs, labels int64 ``(N,)``, and the SHA-256 of the file or files they came from; ``public_sha256`` is that of
    other data, public ones, which a run sees with them.

    Inputs are images uint8 ``(N, C, H, W)`` or, where there are ``vectors`` ``(V, D)`` of words, texts int64
    ``(N, T)`` of indices into them, or features float16 ``(N, D)``, if ``pretrained_on`` names the data set on which
    the convolutions that made them were trained; ``pretraining`` then says more of that.  ``assumes_of_words``
    is what a proof of privacy has to assume of the vocabulary.
    """

    name: str
    sha256: str
    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    vectors: Tensor | None = None
    assumes_of_words: str = ""
    pretrained_on: str = ""
    pretraining: str = ""
    public_sha256: str = ""

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return int(max(self.train_labels.max(), self.test_labels.max())) + 1

    @property
    def size(self) -> str:
        """What there is, in words, for the record."""
        words = "" if self.vectors is None else ", {} word vectors of {} dimensions".format(*self.vectors.shape)
        said = f"{len(self.train_labels)} training examples{words}"
        if not self.pretrained_on:
            return said
        features = f"{self.train_inputs.shape[1]} features pretrained on {self.pretrained_on}"
        return f"{said}, as {features} ({self.pretraining})"

    @property
    def assumes(self) -> str:
        """What a proof of privacy has to assume of data like these, beside the private examples."""
        if self.pretrained_on:
            pretrained = f"; {self.pretrained_on}, on which the convolutions were pretrained, is public"
            return self.assumes_of_words + pretrained
        return self.assumes_of_words

    def of_its_own_words(self) -> "Dataset":
        """The same data with words that no training text has as unknown ones, so that the model tells which it has."""
        if self.vectors is None:
            raise ValueError(f"vocabulary: expected 'public' for data set {self.name!r}, which has no texts")
        known = torch.zeros(len(self.vectors), dtype=torch.bool, device=self.vectors.device)
        known[self.train_inputs.flatten()] = True
        known[text.PADDING] = True
        return replace(
            self, test_inputs=self.test_inputs.where(known[self.test_inputs], text.UNKNOWN), assumes_of_words=OWN_WORDS
        )

    def hold_out(self, examples: int, generator: torch.Generator) -> "Dataset":
        """The same data with ``examples`` random training examples in the place of the test set, which is gone.

        Tuning runs train on this, so they cannot look at the test set.  Raises ``ValueError`` unless some examples are
        held out and some are left.
        """
        rest, (inputs, labels) = self.without("validation_examples", examples, generator)
        return replace(rest, test_inputs=inputs, test_labels=labels)

    def without(self, field: str, examples: int, generator: torch.Generator) -> tuple["Dataset", Examples]:
        """The same data without ``examples`` random training examples, and those; ``field`` asked for that many.

        Raises ``ValueError``, naming the field, unless some are taken and some are left.
        """
        n = len(self.train_labels)
        if not 0 < examples < n:
            raise ValueError(f"{field}: expected 1 to {n - 1} of {self.name}'s training set; got {examples}")
        order = torch.randperm(n, generator=generator).to(self.train_labels.device)
        taken, kept = order[:examples], order[examples:]
        rest = replace(self, train_inputs=self.train_inputs[kept], train_labels=self.train_labels[kept])
        return rest, (self.train_inputs[taken], self.train_labels[taken])
