"""`rushlight demo`: an ordinary PyTorch program on a real data set, from loading to a saved model.

Everything between the imports and the picture would run unchanged under torch.
"""
from __future__ import annotations

import os
import sys
import time

import rushlight as torch
from rushlight import nn
from rushlight.datasets import Digits
from rushlight.utils.canvas import Canvas
from rushlight.utils.data import DataLoader, TensorDataset

EPOCHS = 30


class Classifier(nn.Module):
    """A perceptron for 8x8 images."""

    def __init__(self, hidden: int = 128, classes: int = 10) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(hidden, classes),
        )

    def forward(self, images):      # (N, 8, 8) -> (N, 10)
        return self.layers(images)


def accuracy(model, images, classes) -> float:
    model.eval()
    with torch.no_grad():
        right = (model(images).argmax(1) == classes).sum().item()
    return right / len(classes)


class Progress:
    """One line that is written over while stdout is a terminal, and once an epoch when it is not."""

    def __init__(self, total: int, stream=None) -> None:
        self.total, self.done, self.stream = total, 0, stream or sys.stdout
        self.interactive = self.stream.isatty()
        self.shown = 0.0

    def advance(self, text: str, newline: bool = False) -> None:
        self.done += 1
        now = time.perf_counter()
        if not newline and not (self.interactive and now - self.shown > 0.05):
            return
        self.shown = now
        share = self.done / self.total
        filled = int(30 * share)
        bar = "█" * filled + "·" * (30 - filled)
        end = "" if self.interactive and self.done < self.total else "\n"
        try:
            self.stream.write(("\r" if self.interactive else "") + f"{bar} {share:4.0%}  {text}" + end)
        except UnicodeEncodeError:                   # a terminal without those characters
            self.stream.write(("\r" if self.interactive else "") + f"{share:4.0%}  {text}" + end)
        self.stream.flush()


def train(model, epochs: int, quiet: bool = False) -> tuple[list[float], float]:
    """Train on the digits; the loss of every step, and the time of the first."""
    digits = Digits(train=True)
    loader = DataLoader(TensorDataset(digits.images, digits.classes), batch_size=64, shuffle=True)
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    progress = Progress(epochs * len(loader))
    losses: list[float] = []
    started = time.perf_counter()
    first_step = 0.0
    model.train()
    for epoch in range(epochs):
        for step, (images, classes) in enumerate(loader):
            optimizer.zero_grad()
            loss = loss_function(model(images), classes)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            first_step = first_step or time.perf_counter() - started
            if not quiet:
                keep = step == len(loader) - 1 and (epoch % 5 == 4 or epoch == epochs - 1)
                progress.advance(f"epoch {epoch + 1:2d}/{epochs}  loss {losses[-1]:.4f}", newline=keep)
        schedule.step()
    return losses, first_step


BLACK, GREY, BLUE, GREEN, RED = (30, 30, 30), (200, 200, 200), (31, 97, 180), (20, 130, 60), (190, 30, 30)


def picture(losses: list[float], images, classes, predicted, score: float) -> Canvas:
    """The loss of every step on the left, test images with the predicted class on the right (mistakes first, in red)."""
    canvas = Canvas(960, 480)
    canvas.text(40, 16, "Loss of each step", BLACK, 2)
    left, top, width, height = 60, 50, 400, 380
    highest = max(losses) or 1.0
    for i in range(5):
        y = top + height - height * i // 4
        canvas.line(left, y, left + width, y, GREY)
        canvas.text(14, y - 4, f"{highest * i / 4:.2f}", BLACK)
    points = [(left + width * i / max(1, len(losses) - 1), top + height - height * loss / highest) for i, loss in enumerate(losses)]
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        canvas.line(x0, y0, x1, y1, BLUE, 2)
    canvas.text(left, top + height + 12, "0", BLACK)
    canvas.text(left + width - 24, top + height + 12, str(len(losses)), BLACK)

    canvas.text(510, 16, f"Test images: {score:.1%} right", BLACK, 2)
    wrong = [i for i in range(len(classes)) if predicted[i] != classes[i]]
    right = [i for i in range(len(classes)) if predicted[i] == classes[i]]
    for place, i in enumerate((wrong[:8] + right)[:24]):
        x, y = 510 + place % 6 * 74, 52 + place // 6 * 104
        for row, values in enumerate(images[i]):
            for column, value in enumerate(values):
                shade = 255 - int(255 * value)
                canvas.rectangle(x + column * 8, y + row * 8, 8, 8, (shade, shade, shade))
        good = predicted[i] == classes[i]
        canvas.text(x, y + 70, str(predicted[i]) if good else f"{predicted[i]} ({classes[i]})", GREEN if good else RED, 2)
    return canvas


def main(output: str = ".", epochs: int = EPOCHS, seed: int = 0, quiet: bool = False) -> float:
    """Train, test, save; returns the test accuracy."""
    started = time.perf_counter()
    os.makedirs(output, exist_ok=True)
    torch.manual_seed(seed)
    model = Classifier()
    count = sum(param.numel() for param in model.parameters())
    if not quiet:
        print(f"Training a network of {count:,} parameters on the 1437 training images of the UCI handwritten digits, "
              f"{torch.get_num_threads()} thread{'s' if torch.get_num_threads() != 1 else ''}.")
    losses, first_step = train(model, epochs, quiet)
    trained = time.perf_counter()

    test = Digits(train=False)
    score = accuracy(model, test.images, test.classes)
    with torch.no_grad():
        predicted = model(test.images).argmax(1).tolist()
    checkpoint = os.path.join(output, "rushlight-demo.pt")
    torch.save({"model": model.state_dict(), "accuracy": score, "losses": losses}, checkpoint)

    again = Classifier()                                         # what was saved must be what is read
    again.load_state_dict(torch.load(checkpoint)["model"])
    if accuracy(again, test.images, test.classes) != score:
        raise RuntimeError(f"the model read back from {checkpoint} does not predict what the trained one does")
    drawing = os.path.join(output, "rushlight-demo.png")
    picture(losses, test.images.tolist(), test.classes.tolist(), predicted, score).save(drawing)
    if not quiet:
        print(f"Test accuracy {score:.2%} on {len(test)} images. First step {first_step:.2f} s, training {trained - started:.2f} s, "
              f"{(trained - started - first_step) / max(1, len(losses) - 1) * 1e6:.0f} µs a step, all in all "
              f"{time.perf_counter() - started:.2f} s.")
        print(f"Saved {checkpoint} (torch.load reads it too) and {drawing}.")
    return score
