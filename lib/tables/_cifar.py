"""What v1's and v2's CIFAR-10 exhibits have in common: images, networks, and what a tier makes of them.

Crops, flips and standardised pixels, as in v1's code; 24×24 crops for the TensorFlow tutorial's network.  Tier ``cpu``
has the deep networks at a quarter of their width and the light VGG with convolutions at half of it: most runs then take
minutes on one core, SI-DPSGD's of deep networks half an hour and more.  Tier ``smoke`` has those, on 8×8 digits, with
made-up stripes as what is public.
"""

from typing import Any

DATASET = {"smoke": "digits_rgb", "cpu": "cifar10", "paper": "cifar10"}
PUBLIC = {"smoke": "stripes_rgb", "cpu": "cifar100", "paper": "cifar100"}
NOTES = {"cpu": "networks of a quarter of the papers' width"}
NARROW = {"resnet18", "vgg16", "fast_cifar", "light_vgg"}  # have a twin of less width


def network(model: str, tier: str) -> dict[str, Any]:
    """The fields of a run that say what ``model`` is at ``tier``, and which images it sees."""
    return {
        "model": f"{model}_narrow" if model in NARROW and tier != "paper" else model,
        "augmentation": "crop_24_and_flip" if model == "tf_tutorial" else "crop_and_flip",
        "input_scale": "standardised",
    }
