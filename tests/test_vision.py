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


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_cifar(tmp_path, protocol):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    data = np.arange(2 * 3072, dtype=np.uint32).reshape(2, 3072).astype(np.uint8)
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": data, b"labels": [1, 9]}, protocol))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"a"] * 10}))
    found = datasets.CIFAR10(tmp_path, train=False)
    assert len(found) == 2 and found[1][1] == 9 and rl.equal(found.data[0, 0, 0], rl.from_numpy(data[0].reshape(3, 32, 32)[:, 0, 0].copy()))
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": data, b"labels": [1, 10]}))
    with pytest.raises(ValueError, match="10 classes"): datasets.CIFAR10(tmp_path, train=False)
    (folder / "test_batch").write_bytes(pickle.dumps(print))
    with pytest.raises(pickle.UnpicklingError, match="does not belong"): datasets.CIFAR10(tmp_path, train=False)
    with pytest.raises(RuntimeError, match="not found"): datasets.CIFAR100(tmp_path)


def test_turning_and_blurring():
    x = rl.arange(12).view(1, 3, 4).to(rl.uint8)
    assert rl.equal(t.rotate(x, 90, expand=True), x.rot90(1, (-2, -1))) and rl.equal(t.rotate(x, 180), x.flip(-1).flip(-2)) and rl.equal(t.rotate(x, 0), x)
    assert rl.equal(t.rotate(rl.ones(3, 4, 4), 45, fill=7.0)[:, 0, 0], rl.full((3,), 7.0)) and tuple(t.rotate(rl.ones(1, 4, 4), 45, expand=True).shape) == (1, 6, 6)
    with pytest.raises(ValueError, match="nearest or bilinear"): t.rotate(x, 3, "bicubic")
    flat = rl.full((2, 3, 9, 9), 0.25)
    rl.testing.assert_close(t.gaussian_blur(flat, (3, 5)), flat)
    spot = rl.zeros(1, 9, 9)
    spot[0, 4, 4] = 1
    blurred = t.gaussian_blur(spot, 5, 1.0)
    bell = (-0.5 * rl.arange(-2.0, 3.0) ** 2).exp()
    bell = bell / bell.sum()
    rl.testing.assert_close(blurred[0, 2:7, 2:7], bell[:, None] * bell)
    assert not blurred[0, 1].any()
    with pytest.raises(ValueError, match="odd and positive"): t.gaussian_blur(spot, 4)
    rl.manual_seed(0)
    assert tuple(t.Compose([t.RandomRotation(30, t.InterpolationMode.BILINEAR), t.GaussianBlur(3), t.RandomGrayscale(1.0), t.Resize(4, t.InterpolationMode.NEAREST)])(IMAGE).shape) == (3, 4, 5)


def test_what_is_beside_an_image_passes_through():
    image, label, box = t.Compose([t.RandomHorizontalFlip(1.0)])(IMAGE, 3, "box")
    assert rl.equal(image, IMAGE.flip(-1)) and (label, box) == (3, "box")


def test_arrays_keep_their_values_as_images():
    array = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert rl.equal(t.ToImage()(array), rl.from_numpy(array).permute(2, 0, 1)) and t.ToImage()(array).dtype is rl.uint8
    pytest.importorskip("PIL")
    assert np.array_equal(np.asarray(t.to_pil_image(array)), array)


def test_wrong_options_are_refused():
    for options in (dict(brightness=-1), dict(hue=0.7), dict(contrast=(2, 1)), dict(hue=(-0.6, 0))):
        with pytest.raises(ValueError, match="non negative|values should be between"): t.ColorJitter(**options)
    with pytest.raises(ValueError, match="is not a valid InterpolationMode"): t.resize(IMAGE, 4, "cubist")
    with pytest.raises(ValueError, match="Length of p"): t.RandomChoice([t.ToTensor()], [0.5, 0.5])
    for change in (t.Normalize([0.5], [0.5]), t.ToDtype(rl.float32)):
        with pytest.raises(TypeError, match="should be Tensor Image"): change(np.zeros((4, 4)))


def test_folders_of_pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("dog", (200, 0, 0)), ("cat", (0, 0, 100))):
        (tmp_path / name / "more").mkdir(parents=True)
        for place in (f"{name}/b.png", f"{name}/more/a.PNG"): image.new("RGB", (6, 5), colour).save(tmp_path / place)
        (tmp_path / name / "notes.txt").write_text("not a picture")
    data = datasets.ImageFolder(tmp_path, transform=t.ToTensor())
    assert data.classes == ["cat", "dog"] and data.targets == [0, 0, 1, 1] and len(data) == 4 and data.class_to_idx["dog"] == 1
    x, y = data[3]
    assert y == 1 and tuple(x.shape) == (3, 5, 6) and rl.equal(x[0], rl.full((5, 6), 200 / 255))
    (tmp_path / "bird").mkdir()
    with pytest.raises(FileNotFoundError, match="classes bird"): datasets.ImageFolder(tmp_path)
    with pytest.raises(FileNotFoundError, match="any class folder"): datasets.ImageFolder(tmp_path / "bird")
