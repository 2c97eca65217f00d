"""Data sets that the user has on disk: MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100. Nothing is downloaded; files are checked before they are used."""
from __future__ import annotations

import gzip
import os
import pickle

import rushlight as rl
from rushlight.utils.data import Dataset

IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path):
    """The array in an IDX file (plain or gzipped), checked against what its header says."""
    import numpy as np
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rb") as file: data = file.read()
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES: raise ValueError(f"{path} is not an IDX file: it begins with {data[:4]!r}")
    rank = data[3]
    shape = tuple(int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(rank))
    kind = np.dtype(IDX_TYPES[data[2]])
    wanted = 4 + 4 * rank + kind.itemsize * int(np.prod(shape, dtype=np.int64))
    if len(data) != wanted: raise ValueError(f"{path} has {len(data)} bytes; its header says {wanted} (shape {list(shape)}): it is damaged or cut short")
    return np.frombuffer(data, kind, offset=4 + 4 * rank).reshape(shape)


class _Images(Dataset):
    """Images [height, width(, 3)] with labels; transforms see Pillow images if Pillow is there, else uint8 tensors."""

    def __init__(self, images, labels, transform, target_transform, classes):
        self.data, self.targets, self.transform, self.target_transform, self.classes = images, labels, transform, target_transform, classes

    def __len__(self): return len(self.targets)

    def __getitem__(self, index):
        image, target = self.data[index], int(self.targets[index])
        if self.transform is not None: image = self.transform(_picture(image))
        if self.target_transform is not None: target = self.target_transform(target)
        return image, target

    def __repr__(self): return f"{type(self).__name__}: {len(self)} images of shape {list(self.data.shape[1:])}, {len(self.classes)} classes"


def _picture(image):
    try:
        from PIL import Image
    except ImportError: return image.unsqueeze(0) if image.ndim == 2 else image.permute(2, 0, 1)
    return Image.fromarray(image.numpy())


class ImageFolder(Dataset):
    """Pictures in one folder per class: `root/dog/a.png` is of the class "dog"; classes are numbered in alphabetical order. `loader` reads a file:
    by default Pillow, to RGB."""

    endings = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

    def __init__(self, root, transform=None, target_transform=None, loader=None, is_valid_file=None):
        self.root, self.transform, self.target_transform, self.loader = root, transform, target_transform, loader or _load_rgb
        wanted = is_valid_file or (lambda path: path.lower().endswith(self.endings))
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        if not self.classes: raise FileNotFoundError(f"Couldn't find any class folder in {root}.")
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples, empty = [], []
        for name, number in self.class_to_idx.items():
            found = sorted(os.path.join(folder, file) for folder, _, files in os.walk(os.path.join(root, name), followlinks=True) for file in files)
            found = [path for path in found if wanted(path)]
            if not found: empty.append(name)
            self.samples += [(path, number) for path in found]
        if empty: raise FileNotFoundError(f"Found no valid file for the classes {', '.join(empty)}. Supported extensions are: {', '.join(self.endings)}")
        self.imgs, self.targets = self.samples, [number for _, number in self.samples]

    def __len__(self): return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        image = self.loader(path)
        if self.transform is not None: image = self.transform(image)
        if self.target_transform is not None: target = self.target_transform(target)
        return image, target

    def __repr__(self): return f"{type(self).__name__}: {len(self)} pictures in {self.root}, {len(self.classes)} classes"


def _load_rgb(path):
    from .io import pillow
    with open(path, "rb") as file: return pillow().open(file).convert("RGB")


class MNIST(_Images):
    """Handwritten digits, from the four IDX files (`train-images-idx3-ubyte` ..., gzipped or not) in `root`, `root/MNIST/raw` or beside."""

    folder, names = "MNIST", [str(i) for i in range(10)]

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        prefix = "train" if train else "t10k"
        images, labels = read_idx(self._find(root, f"{prefix}-images-idx3-ubyte")), read_idx(self._find(root, f"{prefix}-labels-idx1-ubyte"))
        if images.ndim != 3 or images.shape[1:] != (28, 28) or images.dtype != "u1": raise ValueError(f"the images are {images.dtype} of shape {list(images.shape)}, not uint8 [n, 28, 28]")
        if labels.shape != images.shape[:1]: raise ValueError(f"{images.shape[0]} images, but {labels.shape[0]} labels")
        if labels.size and labels.max() >= len(self.names): raise ValueError(f"a label is {labels.max()}; there are {len(self.names)} classes")
        super().__init__(rl.from_numpy(images.copy()), rl.from_numpy(labels.astype("i8")), transform, target_transform, list(self.names))
        self.train = train

    @classmethod
    def _find(cls, root, name):
        places = [os.path.join(root, *parts, name + end) for parts in ((), (cls.folder, "raw"), (cls.folder,)) for end in ("", ".gz")]
        found = next((p for p in places if os.path.exists(p)), None)
        if found is None:
            raise RuntimeError(f"Dataset not found. {name}(.gz) is in none of {', '.join(sorted({os.path.dirname(p) for p in places}))}; "
                               "nothing is downloaded: put the files there")
        return found


class FashionMNIST(MNIST):
    """Zalando's clothes, in MNIST's format."""
    folder, names = "FashionMNIST", ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


class _Plain(pickle.Unpickler):
    """CIFAR's batches are pickles of arrays: nothing else may come out of them."""
    ALLOWED = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
               ("numpy.core.numeric", "_frombuffer"), ("numpy._core.numeric", "_frombuffer")}         # pickle protocol 5, Python 3.14's default

    def find_class(self, module, name):
        if (module, name) not in self.ALLOWED: raise pickle.UnpicklingError(f"{module}.{name} does not belong in a CIFAR batch")
        return super().find_class(module, name)


class CIFAR10(_Images):
    """Small colour images in ten classes, from the Python version's folder `cifar-10-batches-py` in `root`."""

    folder, train_files, test_files, label_key, count = "cifar-10-batches-py", [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"], b"labels", 10
    meta_file, meta_key = "batches.meta", b"label_names"

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        import numpy as np
        images, labels = [], []
        for name in self.train_files if train else self.test_files:
            batch = self._read(root, name)
            try: data, mine = np.asarray(batch[b"data"]), list(batch[self.label_key])
            except (KeyError, TypeError) as error: raise ValueError(f"{name} is not a CIFAR batch: {error!r} is missing") from None
            if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072 or len(mine) != len(data): raise ValueError(f"{name}: {len(mine)} labels and data of {data.dtype} {list(data.shape)}, not uint8 [n, 3072]")
            if mine and not 0 <= min(mine) <= max(mine) < self.count: raise ValueError(f"{name}: labels from {min(mine)} to {max(mine)}; there are {self.count} classes")
            images.append(data)
            labels += mine
        pictures = np.concatenate(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        names = [n.decode() for n in self._read(root, self.meta_file)[self.meta_key]]
        super().__init__(rl.from_numpy(np.ascontiguousarray(pictures)), labels, transform, target_transform, names)
        self.train = train

    def _read(self, root, name):
        path = os.path.join(root, self.folder, name)
        if not os.path.exists(path): raise RuntimeError(f"Dataset not found or corrupted. There is no {path}; nothing is downloaded: unpack the archive there")
        with open(path, "rb") as file: return _Plain(file, encoding="bytes").load()


class CIFAR100(CIFAR10):
    """Small colour images in a hundred classes."""
    folder, train_files, test_files, label_key, count, meta_file, meta_key = "cifar-100-python", ["train"], ["test"], b"fine_labels", 100, "meta", b"fine_label_names"
