"""What a beginner sees of the tape: the grad_fn of ordinary results."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.arange(1.0, 7.0).view(2, 3).requires_grad_()
w = torch.ones(4, 3, requires_grad=True)
b = torch.zeros(4, requires_grad=True)
labels = torch.tensor([0, 2])
results = {
    "sum": x.sum(), "sum dim": x.sum(1), "mean": x.mean(), "mean dim": x.mean(0), "max": x.max(), "max dim": x.max(1).values, "min": x.min(),
    "max pair": torch.max(x, x), "prod": x.prod(), "prod dim": x.prod(1), "var": x.var(), "std": x.std(), "norm": x.norm(),
    "add": x + 1, "rsub": 1 - x, "rdiv": 1 / x, "div": x / 2, "pow": x**2, "pow tensor": x**x, "rpow": 2**x, "floor": torch.div(x, 2, rounding_mode="floor"),
    "mm": x @ w.T, "mv": x @ w[0], "dot": x[0] @ x[1], "vm": x[0] @ w.T, "batched": x.expand(5, 2, 3) @ w.T, "bmm": torch.bmm(x[None], w.T[None]),
    "linear": F.linear(x, w, b), "linear no bias": F.linear(x, w), "linear 3d": nn.Linear(3, 2)(torch.ones(2, 2, 3)), "linear 1d": nn.Linear(3, 2)(torch.ones(3)),
    "permute": x.permute(1, 0), "transpose": x.transpose(0, 1), "T": x.T, "t": x.t(), "movedim": x.movedim(0, 1), "view": x.view(-1), "index": x[0], "mask": x[x > 2],
    "cross entropy": F.cross_entropy(x, labels), "smoothed": F.cross_entropy(x, labels, label_smoothing=0.1), "soft": F.cross_entropy(x, x.detach().softmax(1)),
    "soft sum": F.cross_entropy(x, x.detach().softmax(1), reduction="sum"), "nll": F.nll_loss(x, labels), "spatial": F.cross_entropy(x.T[None], torch.tensor([[0, 2]])),
    "mse": F.mse_loss(x, x.detach()), "l1": F.l1_loss(x, x.detach()), "kl": F.kl_div(x, x.detach(), reduction="batchmean"), "relu": x.relu(), "log1p": x.log1p(),
    "softmax": x.softmax(1), "cat": torch.cat([x, x]), "scatter": x.scatter(1, torch.tensor([[0]]), 5.0), "dropout": F.dropout(x, 0.5), "where": torch.where(x > 2, x, 0.0),
    "embedding": F.embedding(labels, x.T), "layer norm": F.layer_norm(x, (3,)), "softsign": F.softsign(x), "clamp": x.clamp(min=0), "clone": x.clone(), "to": x.double(),
}
for name, result in results.items():
    print(name, tuple(result.shape), result.grad_fn.name())
print(x.mean(), F.mse_loss(x, torch.zeros(2, 3)), (x @ w.T).sum(), nn.Linear(3, 1)(x))
