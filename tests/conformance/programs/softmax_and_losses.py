"""softmax with -inf masks, label smoothing, class weights, ignore_index, soft labels, logsumexp, KL, BCE with pos_weight."""
import torch
import torch.nn.functional as F

inf = float("inf")
torch.manual_seed(0)
scores = torch.randn(3, 5)
mask = torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]).bool()
masked = scores.masked_fill(~mask, -inf).requires_grad_()
p = masked.softmax(dim=-1)
print(p)
print(torch.nan_to_num(p).sum(-1).tolist(), torch.log_softmax(masked, 1)[0], torch.logsumexp(masked, 1))
p[:2].pow(2).sum().backward()
print(masked.grad)
logits = torch.randn(6, 4, requires_grad=True)
target = torch.tensor([0, 3, -100, 1, 2, 2])
weight = torch.tensor([1.0, 2.0, 0.5, 1.0])
for options in ({}, {"weight": weight}, {"label_smoothing": 0.1}, {"reduction": "none"}, {"reduction": "sum", "weight": weight, "label_smoothing": 0.2}, {"ignore_index": 2}):
    kept = target.clamp(min=0) if options.get("ignore_index") else target
    loss = F.cross_entropy(logits, kept, **options)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    print(sorted(options), loss.tolist(), gradient.norm().item())
soft = F.one_hot(target.clamp(min=0), 4).float() * 0.9 + 0.025
print(F.cross_entropy(logits, soft).item(), -(soft * logits.log_softmax(1)).sum(1).mean().item())
print(F.nll_loss(F.log_softmax(logits, 1), target).item(), F.cross_entropy(torch.randn(2, 4, 3), torch.zeros(2, 3, dtype=torch.long)).item())
print(F.kl_div(logits.log_softmax(1), soft, reduction="batchmean").item())
print(F.binary_cross_entropy_with_logits(logits, soft, pos_weight=weight, weight=weight).item())
print(F.cosine_similarity(logits[:3], logits[3:]).tolist(), F.softplus(logits).sum().item(), F.normalize(logits, dim=1).norm(dim=1).tolist())
print(F.cross_entropy(torch.tensor([[1000.0, 0.0], [-1000.0, 0.0]]), torch.tensor([0, 0])).item())
print(F.cross_entropy(logits, torch.full((6,), -100)).item())
for wrong in (lambda: F.cross_entropy(logits, torch.full((6,), 4)), lambda: F.cross_entropy(logits, target[:3]), lambda: F.cross_entropy(logits, target.float()), lambda: F.cross_entropy(logits, target, reduction="avg"), lambda: F.binary_cross_entropy(torch.ones(2) * 2, torch.ones(2)), lambda: F.cross_entropy(logits, target.int()), lambda: F.one_hot(torch.tensor([5]), 3)):
    try:
        print(wrong())
    except Exception as e:
        print("error:", type(e).__name__, str(e).splitlines()[0])
