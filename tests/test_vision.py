"""Images: conversions, transforms against plain arithmetic, data-set files that are right and that are not."""
import gzip
import pickle
import struct

import numpy as np
import pytest

import rushlight as rl
from rushlight.vision import datasets, read_image, write_png
from rushlight.vision import transforms as t

IMAGE = rl.arange(3 * 6 * 8).view(3, 6, 8).to(rl.uint8)


def test_conversions():
    array = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert rl.equal(t.to_tensor(array), rl.from_numpy(array).permute(2, 0, 1).float() / 255)
    floats = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)
    assert rl.equal(t.to_tensor(floats), rl.from_numpy(floats)[None])                # floats are left alone
    assert rl.equal(t.convert_dtype(t.convert_dtype(IMAGE, rl.float32), rl.uint8), IMAGE)
    assert rl.equal(t.convert_dtype(IMAGE, rl.float32), IMAGE.float() / 255) and t.ToDtype(rl.float64)(IMAGE).amax() == IMAGE.amax()
    with pytest.raises(ValueError, match="2/3 dimensional"): t.to_tensor(np.zeros(3, np.uint8))
    with pytest.raises(RuntimeError, match="cannot be performed safely"): t.convert_dtype(rl.rand(3), rl.int64)


def test_geometry():
    assert rl.equal(t.crop(IMAGE, 1, 2, 3, 4), IMAGE[:, 1:4, 2:6])
    beyond = t.crop(IMAGE, -1, 6, 3, 4)
    assert rl.equal(beyond[:, 1:, :2], IMAGE[:, :2, 6:]) and not beyond[:, 0].any() and not beyond[:, :, 2:].any()
    assert rl.equal(t.center_crop(IMAGE, 4), IMAGE[:, 1:5, 2:6]) and rl.equal(t.hflip(t.vflip(IMAGE)), IMAGE.flip(-1).flip(-2))
    assert tuple(t.resize(IMAGE, 3).shape) == (3, 3, 4) and tuple(t.resize(IMAGE, (5, 7)).shape) == (3, 5, 7) and t.resize(IMAGE, (6, 8)) is IMAGE
    flat = rl.full((1, 8, 8), 7, dtype=rl.uint8)
    assert rl.equal(t.resize(flat, (3, 5)), rl.full((1, 3, 5), 7, dtype=rl.uint8))
    assert rl.equal(t.pad(IMAGE, (1, 2), padding_mode="edge")[:, 2:-2, 1:-1], IMAGE) and t.pad(IMAGE, 1, fill=9)[0, 0, 0] == 9


def test_colours():
    x = rl.rand(3, 5, 5)
    assert rl.equal(t.adjust_brightness(x, 0.0), rl.zeros(3, 5, 5))
    rl.testing.assert_close(t.adjust_saturation(x, 0.0), t.rgb_to_grayscale(x, 3).contiguous())
    rl.testing.assert_close(t.adjust_hue(t.adjust_hue(x, 0.3), -0.3), x, rtol=1e-4, atol=1e-5)
    rl.testing.assert_close(t.adjust_contrast(x, 1.0), x)
    with pytest.raises(ValueError, match="hue_factor"): t.adjust_hue(x, 0.7)
    rl.testing.assert_close(t.normalize(x, [0.5] * 3, [2.0] * 3), (x - 0.5) / 2)
    with pytest.raises(TypeError, match="float tensor"): t.normalize(IMAGE, [0.5], [1.0])
    with pytest.raises(ValueError, match="std evaluated to zero"): t.normalize(x, [0.5], [0.0])


def test_random_transforms_follow_the_seed():
    chain = t.Compose([t.RandomResizedCrop(4), t.RandomHorizontalFlip(), t.RandomVerticalFlip(), t.ColorJitter(0.3, 0.3, 0.3, 0.2), t.ToDtype(rl.float32, scale=True), t.RandomErasing(1.0)])
    outs = []
    for _ in range(2):
        rl.manual_seed(3)
        outs.append(chain(IMAGE))
    assert rl.equal(*outs) and tuple(outs[0].shape) == (3, 4, 4)
    assert tuple(t.RandomCrop(4, padding=2)(IMAGE).shape) == (3, 4, 4)
    with pytest.raises(ValueError, match="larger than input image"): t.RandomCrop(40)(IMAGE)


def test_files(tmp_path):
    pytest.importorskip("PIL")
    path = tmp_path / "a.png"
    write_png(IMAGE, path)
    assert rl.equal(read_image(path), IMAGE) and read_image(path, "GRAY").shape[0] == 1
    picture = t.to_pil_image(IMAGE)
    assert rl.equal(t.pil_to_tensor(picture), IMAGE) and t.resize(picture, (3, 4)).size == (4, 3)
    with pytest.raises(ValueError, match="write_png takes"): write_png(IMAGE.float(), path)


def idx(array, code=8): return bytes([0, 0, code, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape) + array.tobytes()


def test_mnist(tmp_path):
    images, labels = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8), np.arange(5, dtype=np.uint8)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels))
    data = datasets.MNIST(tmp_path, transform=t.ToImage())
    image, label = data[3]
    assert len(data) == 5 and label == 3 and rl.equal(image[0], rl.from_numpy(images[3]))
    assert "Trouser" in datasets.FashionMNIST(tmp_path).classes
    with pytest.raises(RuntimeError, match="Dataset not found"): datasets.MNIST(tmp_path, train=False)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels[:4]))
    with pytest.raises(ValueError, match="5 images, but 4 labels"): datasets.MNIST(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels)[:-1])
    with pytest.raises(ValueError, match="damaged or cut short"): datasets.MNIST(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels + 20))
    with pytest.raises(ValueError, match="10 classes"): datasets.MNIST(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"hello")
    with pytest.raises(ValueError, match="not an IDX file"): datasets.MNIST(tmp_path)


def test_cifar(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    data = np.arange(2 * 3072, dtype=np.uint32).reshape(2, 3072).astype(np.uint8)
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": data, b"labels": [1, 9]}))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"a"] * 10}))
    found = datasets.CIFAR10(tmp_path, train=False)
    assert len(found) == 2 and found[1][1] == 9 and rl.equal(found.data[0, 0, 0], rl.from_numpy(data[0].reshape(3, 32, 32)[:, 0, 0].copy()))
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": data, b"labels": [1, 10]}))
    with pytest.raises(ValueError, match="10 classes"): datasets.CIFAR10(tmp_path, train=False)
    (folder / "test_batch").write_bytes(pickle.dumps(print))
    with pytest.raises(pickle.UnpicklingError, match="does not belong"): datasets.CIFAR10(tmp_path, train=False)
    with pytest.raises(RuntimeError, match="not found"): datasets.CIFAR100(tmp_path)
