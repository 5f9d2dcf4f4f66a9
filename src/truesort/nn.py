"""The functions and losses as modules, for models that are put together from modules.

A module holds a method and what else the function asks for, and nothing that is learnt or saved: its `state_dict` is
empty. The mathematics is in `functional` and `losses`.
"""

from dataclasses import replace

from torch import Tensor, nn

from . import functional, losses
from .ops import Method, Network


class _Holder(nn.Module):
    """A module that holds a method, and shows it with the settings named in `_shown`."""

    _shown: tuple[str, ...] = ()

    def __init__(self, method: Method | None) -> None:
        super().__init__()
        if method is not None and not isinstance(method, Method):
            raise TypeError(f"method is {method!r}; it must be a method such as ts.Network(), or None for that")
        self.method: Method = Network() if method is None else method

    def extra_repr(self) -> str:
        """The settings and the method, as one would write them."""
        return ", ".join([*(f"{name}={getattr(self, name)!r}" for name in self._shown), f"method={self.method!r}"])


class _Along(_Holder):
    """What sorts along a dim in a direction."""

    _shown = ("dim", "descending")

    def __init__(self, method: Method | None = None, *, dim: int = -1, descending: bool = False) -> None:
        super().__init__(method)
        self.dim, self.descending = dim, descending


class Sort(_Along):
    """Module of `truesort.sort`: values in order."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The sorted values of `x`."""
        return functional.sort(x, self.method, dim=self.dim, descending=self.descending, mask=mask)


class Rank(_Along):
    """Module of `truesort.rank`: the position of every item."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The ranks of the items of `x`."""
        return functional.rank(x, self.method, dim=self.dim, descending=self.descending, mask=mask)


class Permutation(_Along):
    """Module of `truesort.permutation`: the matrix P."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """P of shape (..., n, n)."""
        return functional.permutation(x, self.method, dim=self.dim, descending=self.descending, mask=mask)


class Reorder(_Along):
    """Module of `truesort.reorder`: a payload in the order of its keys."""

    def forward(self, keys: Tensor, payload: Tensor, mask: Tensor | None = None) -> Tensor:
        """The payload, reordered."""
        return functional.reorder(keys, payload, self.method, dim=self.dim, descending=self.descending, mask=mask)


class TopK(_Holder):
    """Module of `truesort.topk`: the k largest or smallest values and their selection."""

    _shown = ("k", "dim", "largest")

    def __init__(self, k: int, method: Method | None = None, *, dim: int = -1, largest: bool = True) -> None:
        super().__init__(method)
        self.k, self.dim, self.largest = k, dim, largest

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Values, and the selection of shape (..., n, k)."""
        return functional.topk(x, self.k, self.method, dim=self.dim, largest=self.largest, mask=mask)


class Quantile(_Holder):
    """Module of `truesort.quantile`; `Quantile(0.5)` is the median."""

    _shown = ("q", "dim")

    def __init__(self, q: float, method: Method | None = None, *, dim: int = -1) -> None:
        super().__init__(method)
        self.q, self.dim = q, dim

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The quantile of `x` along `dim`."""
        return functional.quantile(x, self.q, self.method, dim=self.dim, mask=mask)


class SortingLoss(_Holder):
    """The paper's combined loss L_soft + λ·L_hard, with a soft and an error-free network of one configuration.

    L_soft is `permutation_loss` of the soft P, L_hard `reorder_loss` of the error-free one, taken in blocks of `split`
    items. `lambda_hard` is λ for the `reduction` given: the paper writes sums, while the λ in its tables weighed means.
    """

    _shown = ("lambda_hard", "split", "reduction")
    method: Network

    def __init__(
        self,
        lambda_hard: float = 0.1,
        split: int | None = None,
        *,
        method: Network | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(method)
        if not isinstance(self.method, Network):
            raise TypeError(f"method is {method!r}; SortingLoss needs a Network, which is both soft and error-free")
        if isinstance(lambda_hard, bool) or not isinstance(lambda_hard, int | float) or not lambda_hard >= 0:
            raise ValueError(f"lambda_hard is {lambda_hard!r}; it must be a number from 0 up")
        losses.check_split(split)
        losses.check_reduction(reduction)
        self.lambda_hard, self.split, self.reduction = lambda_hard, split, reduction

    @property
    def soft(self) -> Network:
        """The network of L_soft."""
        return replace(self.method, error_free=False)

    @property
    def error_free(self) -> Network:
        """The network of L_hard."""
        return replace(self.method, error_free=True)

    def forward(
        self, scores: Tensor, truth: Tensor, payload: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The loss of scores (..., n) and, unless λ is 0, of the payload (..., n, features) that they put in order."""
        P = functional.permutation(scores, self.soft, mask=mask)
        loss = losses.permutation_loss(P, truth, mask=mask, reduction=self.reduction)
        if not self.lambda_hard:
            return loss
        if payload is None:
            raise ValueError(f"payload is None; lambda_hard={self.lambda_hard} needs what the scores put in order")
        hard = losses.reorder_loss(
            scores, payload, truth, self.error_free, split=self.split, mask=mask, reduction=self.reduction
        )
        return loss + self.lambda_hard * hard


class SpearmanLoss(_Holder):
    """Module of `losses.spearman_loss`."""

    def __init__(self, method: Method | None = None) -> None:
        super().__init__(method)

    def forward(self, scores: Tensor, truth: Tensor, mask: Tensor | None = None) -> Tensor:
        """1 − Spearman's ρ."""
        return losses.spearman_loss(scores, truth, self.method, mask=mask)


class NDCGLoss(_Holder):
    """Module of `losses.ndcg_loss` over the first k positions, all for None."""

    _shown = ("k",)

    def __init__(self, k: int | None = None, method: Method | None = None) -> None:
        super().__init__(method)
        self.k = k

    def forward(self, scores: Tensor, relevance: Tensor, mask: Tensor | None = None) -> Tensor:
        """1 − soft NDCG."""
        return losses.ndcg_loss(scores, relevance, self.method, k=self.k, mask=mask)
