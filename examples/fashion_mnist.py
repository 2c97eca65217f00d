"""LeNet on Fashion-MNIST, with rushlight or, for comparison, the same program with torch.

    python examples/fashion_mnist.py [DATA] [--library torch] [--epochs 3] [--seeds 3] [--threads 2]
    python examples/fashion_mnist.py [DATA] --compare

DATA is a folder with the four IDX files (Debian's package dataset-fashion-mnist puts them in /usr/share/datasets/fashion-mnist, which is looked at
unless told otherwise). Prints the test accuracy and the time of each seed. `--compare` runs both libraries, each seed in a process of its own and the two in
turn, and prints the difference of the mean accuracies in points and our time over torch's.
"""
import argparse
import importlib
import json
import statistics
import subprocess
import sys
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
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return accuracy(torch, net, *test)


def alone(library, given):
    """Train with one library; one (accuracy, seconds) a seed, printed as they come."""
    torch = importlib.import_module(library)
    importlib.import_module(library + ".utils.data")
    if given.threads: torch.set_num_threads(given.threads)
    train, test = (tensors(torch, FashionMNIST(given.data, train=part)) for part in (True, False))
    results = []
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        start = time.perf_counter()
        score = run(torch, train, test, seed, given.epochs, given.batch)
        results.append((score, time.perf_counter() - start))
        if not given.json: show(library, seed, given.epochs, *results[-1])
    return results


def show(library, seed, epochs, score, seconds): print(f"{library:10} seed {seed}: {score:.2%} after {epochs} epochs, {seconds:.1f} s", flush=True)


def compare(given):
    """Both libraries, a process for each seed of each, in turn."""
    results = {"rushlight": [], "torch": []}
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for library, found in results.items():
            command = [sys.executable, __file__, given.data, "--library", library, "--epochs", str(given.epochs), "--batch", str(given.batch), "--seeds", "1",
                       "--first-seed", str(seed), "--json", *(["--threads", str(given.threads)] if given.threads else [])]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode: sys.exit(done.stderr)
            found.append(json.loads(done.stdout)[0])
            show(library, seed, given.epochs, *found[-1])
    accuracy = {library: statistics.mean(score for score, _ in found) for library, found in results.items()}
    ratios = [ours / theirs for (_, ours), (_, theirs) in zip(results["rushlight"], results["torch"])]
    print(f"mean accuracy: rushlight {accuracy['rushlight']:.2%}, torch {accuracy['torch']:.2%}, {100 * (accuracy['rushlight'] - accuracy['torch']):+.2f} points")
    print(f"our time over torch's: {', '.join(f'{r:.2f}' for r in ratios)}; median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", nargs="?", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--library", default="rushlight")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--compare", action="store_true", help="both libraries, side by side")
    parser.add_argument("--json", action="store_true", help="print the results for another program")
    given = parser.parse_args()
    if given.compare: compare(given)
    else:
        found = alone(given.library, given)
        if given.json: print(json.dumps(found))
