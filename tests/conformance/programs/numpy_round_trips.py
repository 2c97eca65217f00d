"""numpy in and out: shared memory, dtypes, mixed arithmetic, arrays of tensors, scalars."""
import numpy as np
import torch

array = np.arange(6, dtype=np.float32).reshape(2, 3)
t = torch.from_numpy(array)
t[0, 0] = 99
array[1, 1] = -1
print(t, array)
n = t.numpy()
n *= 2
print(t.sum(), np.asarray(t).dtype, np.array(t)[0])
print(torch.tensor(array.astype(np.float64)).dtype, torch.as_tensor(array).data_ptr() == t.data_ptr(), torch.tensor(np.int32(5)))
print(torch.tensor([np.float32(1.5), np.float32(2.5)]), torch.tensor(np.array([True, False])), torch.tensor(np.float64(0.1)))
print(torch.from_numpy(array.T).stride(), torch.from_numpy(array[:, ::2]))
print(np.mean(t.numpy()), np.sqrt(torch.tensor([4.0, 9.0])), np.sum(torch.ones(3).numpy()))
print(t * np.float32(2), t + np.arange(3), isinstance(t * np.float64(2), torch.Tensor), (t * np.float64(2)).dtype)
print(np.float32(2) * torch.ones(2), torch.ones(2, dtype=torch.float64).numpy().dtype)
print(torch.tensor([[1, 2], [3, 4]]).numpy().tolist(), torch.arange(3).numpy(), torch.tensor(3).numpy())
index = np.array([1, 0])
print(t[index], t[:, np.array([True, False, True])], t[np.int64(1)])
print(np.stack([x.numpy() for x in torch.eye(2)]), np.concatenate([torch.ones(1), torch.zeros(1)]))
print(torch.zeros(np.int64(2), 3).shape, torch.full((2,), np.float32(1.5)), torch.linspace(0, 1, np.int64(3)))
print(torch.from_numpy(np.random.RandomState(0).randn(3)), torch.tensor(np.random.RandomState(0).randint(0, 5, 4)))
g = torch.ones(2, requires_grad=True)
print(g.detach().numpy(), (g * 2).detach().cpu().numpy().sum(), g.tolist())
for wrong in (lambda: torch.from_numpy([1, 2]), lambda: torch.from_numpy(np.array(["a"])), lambda: torch.from_numpy(array[::-1]), lambda: torch.tensor(["a"]), lambda: torch.tensor([[1, 2], [3]]), lambda: torch.ones(1, dtype=torch.bfloat16).numpy()):
    try:
        print(wrong())
    except Exception as e:
        print("error:", type(e).__name__, str(e).splitlines()[0])
