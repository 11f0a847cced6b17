"""What a model was looked at for, and what was found; looked for anew when it is another question.

It is with another loss, when others of the model's parameters are trained, and when its layers, their hooks or modes
are others.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary, ref

from torch import Tensor, nn

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
FLAGS = (bool, str)  # read in every step: to make a union of them each time costs more than to look
LOOKS = 10  # a last layer of zeros moves with the first step; of some models most examples never have a gradient

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass
class Look:
    """At one model for one question: how often it was asked, and looked for, and what was found wanting, in words."""

    asked: int = 0
    taken: int = 0
    found: str | None = None

    @property
    def over(self) -> bool:
        return self.taken >= LOOKS

    @property
    def again(self) -> bool:
        """At the 2nd, 4th, 8th … time it is asked, as a model may have changed in what is not watched."""
        return self.asked & (self.asked - 1) == 0

    def take(self, *, conclusive: bool) -> None:
        """One of :data:`LOOKS`, or, if it was ``conclusive``, the last."""
        self.taken += LOOKS if conclusive else 1


Found = dict[Hashable, Look]  # by the question, and the state of the model it was asked in
_looks: WeakKeyDictionary[nn.Module, Found] = WeakKeyDictionary()


def of(model: nn.Module, loss: Loss, question: str) -> Look:
    """The one there is so far, asked once more."""
    look = found(model).setdefault(_state(model, loss, question), Look())
    look.asked += 1
    return look


def found(model: nn.Module) -> Found:
    """All that was and will be found of ``model``."""
    return _looks.setdefault(model, {})


def share(of_another: Found, model: nn.Module) -> None:
    """What is found of another model is found of this one, its copy or built alike, and the other way round."""
    _looks[model] = of_another


def _state(model: nn.Module, loss: Loss, question: str) -> Hashable:
    trained = tuple(name for name, parameter in model.named_parameters() if parameter.requires_grad)
    layers = tuple((type(layer), _flags(layer), _hooks(layer)) for layer in model.modules())
    return question, _identity(loss), trained, layers


def _flags(value: object) -> tuple[tuple[str, bool | str], ...]:
    return tuple((name, flag) for name, flag in getattr(value, "__dict__", {}).items() if isinstance(flag, FLAGS))


def _hooks(layer: nn.Module) -> tuple[Hashable, ...]:
    return tuple(_identity(hook) for kind in HOOKS for hook in vars(layer)[kind].values())


def _identity(value: object, within: tuple[object, ...] = ()) -> Hashable:
    """Of functions that are made anew for every step the same, if they are; ``within``: those that hold this one.

    Of other objects a weak reference: it keeps no model alive, and is not that of a later one in the same place.
    """
    if isinstance(value, partial):
        given = (value.func, value.args, tuple(value.keywords.items()))
        return "partial", _identity(given, within)
    if isinstance(value, tuple):
        return tuple(_identity(one, within) for one in value)
    if code := getattr(value, "__code__", None):
        if any(code is outer for outer in within):  # it calls itself
            return code
        within = (*within, code)
        held = tuple(cell.cell_contents for cell in value.__closure__ or ())
        given = (value.__defaults__, getattr(value, "__self__", None))
        return code, _identity(held, within), _identity(given, within), repr(value.__kwdefaults__)
    try:
        found = ref(value)
        hash(found)
    except TypeError:  # numbers, words, lists
        return type(value), repr(value)
    return found, _flags(value)
