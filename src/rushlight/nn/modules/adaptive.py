"""A softmax over very many classes, the rare ones in clusters of their own."""
from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

import rushlight as rl
from rushlight import Tensor

from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of the target classes and their mean loss, where classes are numbered from the most to the least frequent.

    The head scores the `cutoffs[0]` most frequent classes and one entry for each cluster of further classes, [cutoffs[i], cutoffs[i + 1]); a cluster has a
    projection to fewer features, `div_value` times fewer with every cluster, and is only computed for the samples whose target is in it.
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False, device=None,
                 dtype=None) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is between 1 and "
                             "n_classes-1")
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            width = int(in_features // (div_value ** (i + 1)))
            self.tail.append(Sequential(Linear(in_features, width, bias=False, **options), Linear(width, high - low, bias=False, **options)))

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for project, score in self.tail:
            project.reset_parameters()
            score.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        if target_.dim() == 1:
            if input_.size(0) != target_.size(0):
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with size {input_.size()}")
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input_.size()}")
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        single = target_.dim() == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        if target.numel():
            least, most = (int(n) for n in target.aminmax())
            if least < 0 or most >= self.n_classes:
                raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range [{least}, {most}] were found. ")

        # The place of each target in the head: itself if it is frequent, else its cluster's entry.
        place = target
        inside = rl.zeros(target.shape[0], dtype=input.dtype, device=input.device)       # log-probability within the cluster
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            place = place.index_fill(0, rows, self.shortlist_size + i)
            logprob = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            inside = inside.index_copy(0, rows, logprob.gather(1, target[rows].unsqueeze(1) - low).squeeze(1))
        output = inside + F.log_softmax(self.head(input), dim=1).gather(1, place.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if single else output, loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        """The log-probabilities of all classes, given the head's scores."""
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, :self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return rl.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes: (n, in_features) -> (n, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each sample. Clusters are only computed for samples whose head chooses one."""
        scores = self.head(input)
        best = scores.argmax(dim=1)
        rows = (best >= self.shortlist_size).nonzero().squeeze(1)
        if rows.numel() == 0:
            return best
        chosen = input.index_select(0, rows)
        return best.index_copy(0, rows, self._get_full_log_prob(chosen, scores.index_select(0, rows)).argmax(dim=1))
