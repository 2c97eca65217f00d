"""Pruning: every method, chains, removing, importance scores, global pruning, errors."""
import torch
from torch import nn
from torch.nn.utils import prune


def attempt(what, f):
    try: print(what, f())
    except Exception as e: print("error:", what, type(e).__name__, str(e).split("\n")[0][:70])


def fresh(shape=(3, 4)):
    layer = nn.Linear(shape[1], shape[0])
    with torch.no_grad():
        values = torch.arange(1.0, shape[0] * shape[1] + 1)
        layer.weight.copy_((values * torch.where(values % 2 == 0, 1.0, -1.0)).view(shape) / 10)
        layer.bias.copy_(torch.tensor([0.3, -0.1, 0.2])[: shape[0]])
    return layer


layer = prune.l1_unstructured(fresh(), "weight", amount=0.5)
print(layer.weight, layer.weight_mask, sorted(layer.state_dict()), [n for n, _ in layer.named_parameters()])
print(prune.is_pruned(layer), len(layer._forward_pre_hooks))
layer(torch.ones(1, 4)).sum().backward()
print(layer.weight_orig.grad, layer.weight.requires_grad, type(layer.weight).__name__)
prune.l1_unstructured(layer, "weight", amount=2)
print(layer.weight_mask, type(next(iter(layer._forward_pre_hooks.values()))).__name__)
prune.ln_structured(layer, "weight", amount=1, n=2, dim=1)
print(layer.weight)
print([type(m).__name__ for m in next(iter(layer._forward_pre_hooks.values()))])
prune.remove(layer, "weight")
print(layer.weight, sorted(layer.state_dict()), isinstance(layer.weight, nn.Parameter), prune.is_pruned(layer))

print(prune.identity(fresh(), "bias").bias)
torch.manual_seed(3)
print(prune.random_unstructured(fresh(), "weight", amount=0.3).weight_mask)
torch.manual_seed(3)
print(prune.random_structured(fresh(), "weight", amount=1, dim=0).weight_mask)
print(prune.random_structured(fresh(), "weight", amount=0.5, dim=-1).weight_mask)
for n in (1, 2, float("inf"), -float("inf"), "fro"):
    attempt(f"ln {n}", lambda: prune.ln_structured(fresh(), "weight", amount=1, n=n, dim=0).weight_mask)
print(prune.custom_from_mask(fresh(), "bias", torch.tensor([0, 1, 1])).bias)
print(prune.l1_unstructured(fresh(), "weight", 3, importance_scores=torch.arange(12.0).view(3, 4)).weight_mask)
print(prune.ln_structured(fresh(), "weight", 1, 2, 0, importance_scores=-torch.arange(12.0).view(3, 4)).weight_mask)

attempt("amount", lambda: prune.l1_unstructured(fresh(), "weight", amount=1.5))
attempt("amount", lambda: prune.l1_unstructured(fresh(), "weight", amount=-1))
attempt("amount", lambda: prune.l1_unstructured(fresh(), "weight", amount="a"))
attempt("too many", lambda: prune.l1_unstructured(fresh(), "weight", amount=13))
attempt("structured 1d", lambda: prune.ln_structured(fresh(), "bias", amount=1, n=2, dim=0))
attempt("dim", lambda: prune.random_structured(fresh(), "weight", amount=1, dim=5))
attempt("remove", lambda: prune.remove(fresh(), "weight"))
attempt("scores", lambda: prune.l1_unstructured(fresh(), "weight", 1, importance_scores=torch.ones(2)))
attempt("name", lambda: prune.l1_unstructured(fresh(), "nothing", 1))
attempt("is_pruned", lambda: prune.is_pruned(5))


class EverySecond(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


print(EverySecond.apply(fresh(), "weight") and True)
mine = fresh()
EverySecond.apply(mine, "weight")
print(mine.weight)
print(EverySecond().prune(torch.arange(6.0)))
print(prune.L1Unstructured(amount=2).prune(torch.tensor([3.0, 1.0, 2.0])), prune.RandomUnstructured(amount=0).prune(torch.ones(3)))
container = prune.PruningContainer()
container._tensor_name = "weight"
attempt("container", lambda: container.add_pruning_method("x"))

net = nn.Sequential(fresh(), nn.ReLU(), fresh((3, 3)))
with torch.no_grad(): net[2].weight.mul_(1.03), net[2].bias.mul_(1.07)        # no ties
chosen = [(net[0], "weight"), (net[2], "weight"), (net[2], "bias")]
prune.global_unstructured(chosen, pruning_method=prune.L1Unstructured, amount=0.4)
for module, name in chosen: print(getattr(module, name + "_mask"))
print(sum(int((getattr(m, n) == 0).sum()) for m, n in chosen))
scores = {(net[0], "weight"): torch.arange(12.0).view(3, 4)}
prune.global_unstructured([(net[0], "weight")], pruning_method=prune.L1Unstructured, importance_scores=scores, amount=2)
print(net[0].weight_mask.sum())
attempt("global structured", lambda: prune.global_unstructured(chosen, pruning_method=prune.LnStructured, amount=1, n=2))
attempt("global type", lambda: prune.global_unstructured(5, pruning_method=prune.L1Unstructured, amount=1))
state = net.state_dict()
again = nn.Sequential(fresh(), nn.ReLU(), fresh((3, 3)))
for module, name in [(again[0], "weight"), (again[2], "weight"), (again[2], "bias")]: prune.identity(module, name)
print(again.load_state_dict(state), torch.equal(again(torch.ones(1, 4)), net(torch.ones(1, 4))))
