"""LeNet on Fashion-MNIST, with rushlight or, for comparison, the same program with torch.

    python examples/fashion_mnist.py DATA [--library torch] [--epochs 3] [--seeds 0 1 2]

DATA is a folder with the four IDX files (Debian's package dataset-fashion-mnist puts them in /usr/share/datasets/fashion-mnist). Prints the test
accuracy and the time of each seed.
"""
import argparse
import importlib
import time

from rushlight.vision.datasets import FashionMNIST


def lenet(torch):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def tensors(torch, data):
    """Images [n, 1, 28, 28], normalised, and labels, in the library's own tensors."""
    images, labels = torch.from_numpy(data.data.numpy()), torch.from_numpy(data.targets.numpy())
    return ((images.float() / 255 - 0.286) / 0.353).unsqueeze(1), labels


def accuracy(torch, net, images, labels):
    net.eval()
    with torch.no_grad(): right = sum((net(x).argmax(1) == y).sum().item() for x, y in zip(images.split(1000), labels.split(1000)))
    net.train()
    return right / len(labels)


def run(torch, train, test, seed, epochs, batch):
    torch.manual_seed(seed)
    net = lenet(torch)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*train), batch_size=batch, shuffle=True)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return accuracy(torch, net, *test)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--library", default="rushlight")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    torch = importlib.import_module(given.library)
    importlib.import_module(given.library + ".utils.data")
    if given.threads: torch.set_num_threads(given.threads)
    train, test = (tensors(torch, FashionMNIST(given.data, train=part)) for part in (True, False))
    for seed in given.seeds:
        start = time.perf_counter()
        score = run(torch, train, test, seed, given.epochs, given.batch)
        print(f"{given.library} seed {seed}: {score:.2%} after {given.epochs} epochs, {time.perf_counter() - start:.1f} s", flush=True)
