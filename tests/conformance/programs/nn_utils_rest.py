"""nn.utils besides parametrizations and pruning: old weight_norm and spectral_norm, fusion, stateless calls, packing, clipping, vectors."""
import copy

import torch
from torch import nn
from torch.nn import utils


def attempt(what, f):
    try: print(what, f())
    except Exception as e: print("error:", what, type(e).__name__, str(e).split("\n")[0][:70])


def fresh(n=3):
    layer = nn.Linear(n, n)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(n * n, dtype=torch.float32).view(n, n) / 10 - 0.3)
        layer.bias.fill_(0.5)
    return layer


# the old hooks
layer = utils.weight_norm(fresh())
print(sorted(layer.state_dict()), layer.weight_g, layer(torch.ones(1, 3)))
layer(torch.ones(1, 3)).sum().backward()
print(layer.weight_g.grad, layer.weight_v.grad, type(layer.weight).__name__)
attempt("twice", lambda: utils.weight_norm(layer))
utils.remove_weight_norm(layer)
print(sorted(layer.state_dict()), layer.weight, isinstance(layer.weight, nn.Parameter))
attempt("remove", lambda: utils.remove_weight_norm(layer))
print(utils.weight_norm(fresh(), dim=None).weight_g, utils.weight_norm(fresh(), dim=1).weight_g)
torch.manual_seed(1)
layer = utils.spectral_norm(fresh(), n_power_iterations=10)
print(sorted(layer.state_dict()), layer.weight_u.shape, layer.weight_v.shape)
print(layer(torch.ones(1, 3)), layer.weight)
layer.eval()
u = layer.weight_u.clone()
layer(torch.ones(1, 3))
print(torch.equal(u, layer.weight_u))
layer.train()
layer(torch.ones(1, 3)).sum().backward()
print(layer.weight_orig.grad)
attempt("twice", lambda: utils.spectral_norm(layer))
twin = utils.spectral_norm(fresh())
print(twin.load_state_dict(layer.state_dict()))
utils.remove_spectral_norm(layer)
print(sorted(layer.state_dict()), layer.weight)
attempt("remove", lambda: utils.remove_spectral_norm(layer))
attempt("iterations", lambda: utils.spectral_norm(fresh(), n_power_iterations=0))

# fusion
torch.manual_seed(0)
for conv, bn, x in ((nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), torch.randn(2, 2, 5, 5)), (nn.Conv1d(2, 4, 2, groups=2), nn.BatchNorm1d(4), torch.randn(2, 2, 6))):
    with torch.no_grad():
        for p in (bn.weight, bn.bias, bn.running_mean): p.copy_(torch.linspace(-1, 1, p.numel()))
        bn.running_var.copy_(torch.linspace(0.5, 2, bn.running_var.numel()))
    attempt("training", lambda: utils.fuse_conv_bn_eval(conv, bn))
    conv.eval(), bn.eval()
    fused = utils.fuse_conv_bn_eval(conv, bn)
    print((fused(x) - bn(conv(x))).abs().max().item() < 1e-5, type(fused).__name__, fused.bias is not None, fused is conv)
turned = nn.ConvTranspose2d(2, 3, 2).eval()
bn = nn.BatchNorm2d(3).eval()
bn.running_mean.fill_(0.5)
x = torch.randn(1, 2, 4, 4)
print((utils.fuse_conv_bn_eval(turned, bn, transpose=True)(x) - bn(turned(x))).abs().max().item() < 1e-5)
linear, bn = fresh().eval(), nn.BatchNorm1d(3).eval()
bn.running_mean.copy_(torch.tensor([1.0, 2.0, 3.0]))
print(utils.fuse_linear_bn_eval(linear, bn)(torch.ones(2, 3)), bn(linear(torch.ones(2, 3))))
w, b = utils.fuse_linear_bn_weights(linear.weight, None, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
print(type(w).__name__, w, b)
w, b = utils.fuse_conv_bn_weights(torch.ones(3, 1, 1, 1), None, bn.running_mean, bn.running_var, bn.eps, None, None)
print(w.view(-1), b)
attempt("wide", lambda: utils.fuse_linear_bn_eval(fresh().eval(), nn.BatchNorm1d(4).eval()))

# stateless
net = nn.Sequential(fresh(), nn.BatchNorm1d(3), fresh())
x = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])
given = {"0.weight": torch.zeros(3, 3), "1.running_mean": torch.ones(3)}
for call in (utils.stateless.functional_call, torch.func.functional_call):
    print(call(net, given, x), given["1.running_mean"], net[0].weight[0])
    print(call(net, given, (x,)))
    attempt("strict missing", lambda: call(net, given, (x,), strict=True))
    attempt("unexpected", lambda: call(net, {"nothing": torch.ones(1)}, (x,), strict=True))
    attempt("loose", lambda: call(net, {"nothing": torch.ones(1)}, (x,)).shape)
attempt("args", lambda: torch.func.functional_call(net, given, 5))
print(torch.func.functional_call(net, (given, {"2.bias": torch.ones(3)}), (x,)))
attempt("twice", lambda: torch.func.functional_call(net, (given, given), (x,)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = fresh(), fresh()
        self.b.weight = self.a.weight

    def forward(self, x, *, twice=False): return self.b(self.a(x)) * (2 if twice else 1)


tied = Tied()
print(torch.func.functional_call(tied, {"a.weight": torch.eye(3)}, (x,)))
print(torch.func.functional_call(tied, {"a.weight": torch.eye(3)}, (x + 1.0,), {"twice": True}))
print(torch.func.functional_call(tied, {"a.weight": torch.eye(3)}, (x + 1.0,), tie_weights=False))
attempt("both", lambda: torch.func.functional_call(tied, {"a.weight": torch.eye(3), "b.weight": torch.ones(3, 3)}, (x,)))
same = torch.eye(3)
print(torch.func.functional_call(tied, {"a.weight": same, "b.weight": same}, (x,)))

nets = [nn.Sequential(fresh(), nn.BatchNorm1d(3)) for _ in range(2)]
nets[1][0].bias.data.add_(1)
params, buffers = torch.func.stack_module_state(nets)
print({k: (tuple(v.shape), v.requires_grad, v.is_leaf) for k, v in params.items()}, {k: tuple(v.shape) for k, v in buffers.items()})
shell = copy.deepcopy(nets[0]).to("meta").eval()
print(torch.func.vmap(lambda p, b, x: torch.func.functional_call(shell, (p, b), (x,)), (0, 0, None))(params, buffers, x).detach())
attempt("empty", lambda: torch.func.stack_module_state([]))
attempt("mixed modes", lambda: torch.func.stack_module_state([fresh().train(), fresh().eval()]))
attempt("mixed classes", lambda: torch.func.stack_module_state([fresh(), nn.ReLU()]))

# skip_init
made = utils.skip_init(nn.Linear, 3, 2, bias=False)
print(made.weight.shape, made.bias, made.weight.device, type(made).__name__)
attempt("class", lambda: utils.skip_init(5))
attempt("device", lambda: utils.skip_init(nn.ReLU))

# packed sequences
a, b, c = torch.tensor([1.0, 2, 3]), torch.tensor([4.0, 5]), torch.tensor([6.0])
packed = utils.rnn.pack_sequence([a, b, c])
print(packed.data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
packed = utils.rnn.pack_sequence([c, a, b], enforce_sorted=False)
print(packed.data, packed.sorted_indices, packed.unsorted_indices, utils.rnn.unpack_sequence(packed))
attempt("unsorted", lambda: utils.rnn.pack_sequence([c, a]))
padded = utils.rnn.pad_sequence([a, b, c], batch_first=True, padding_value=-1)
print(padded, utils.rnn.pad_sequence([a, c], padding_side="left"), utils.rnn.unpad_sequence(padded, torch.tensor([3, 2, 1]), batch_first=True))
packed = utils.rnn.pack_padded_sequence(padded, [3, 2, 1], batch_first=True)
print(utils.rnn.pad_packed_sequence(packed), utils.rnn.pad_packed_sequence(packed, batch_first=True, padding_value=9, total_length=5))
attempt("total", lambda: utils.rnn.pad_packed_sequence(packed, total_length=2))
attempt("zero length", lambda: utils.rnn.pack_padded_sequence(padded, [3, 2, 0], batch_first=True))
attempt("lengths", lambda: utils.rnn.pack_padded_sequence(padded, [3, 2], batch_first=True))
print(packed.is_cuda, packed.to(torch.float64).data.dtype, packed.cpu().batch_sizes, packed.is_pinned(), packed.double().data.dtype)
print(utils.rnn.invert_permutation(torch.tensor([2, 0, 1])), utils.rnn.invert_permutation(None))

# clipping and vectors
def params(inf=False):
    p, q = nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.tensor([[3.0]]))
    p.grad, q.grad = torch.tensor([3.0, float("inf") if inf else -4.0]), torch.tensor([[12.0]])
    return [p, q]


for kind in (1, 2, 3.5, float("inf"), 0):
    for foreach in (None, False, True):
        ps = params()
        attempt(f"norm {kind}", lambda: (utils.clip_grad_norm_(ps, 2.0, norm_type=kind, foreach=foreach), [p.grad for p in ps]))
attempt("not finite", lambda: utils.clip_grad_norm_(params(True), 1.0, error_if_nonfinite=True))
print(utils.clip_grad_norm_(params(True), 1.0), utils.clip_grad_norm_([], 1.0), utils.clip_grad_norm_(nn.Parameter(torch.ones(2)), 1.0))
ps = params()
utils.clip_grad_value_(ps, 3.5)
print([p.grad for p in ps])
print(utils.get_total_norm([p.grad for p in ps]), utils.get_total_norm([p.grad for p in ps], 1, foreach=True), utils.get_total_norm([]))
utils.clip_grads_with_norm_(ps, 1.0, torch.tensor(2.0))
print([p.grad for p in ps])
vector = utils.parameters_to_vector(ps)
print(vector, vector.requires_grad)
utils.vector_to_parameters(vector.detach() * 2, ps)
print(ps)
attempt("vector", lambda: utils.vector_to_parameters([1, 2], ps))
