"""Transforms of images. They take tensors [..., channels, height, width] and Pillow images, and draw their random numbers from torch's generator.

A transform is an object that is called; `Compose` chains them. The functions they are made of have the same names in lower case.
"""
from __future__ import annotations

import math
import numbers
from enum import Enum

import rushlight as rl
from rushlight.nn import functional as F

__all__ = ["InterpolationMode", "Compose", "Lambda", "ToTensor", "ToImage", "PILToTensor", "ToPILImage", "ToDtype", "ConvertImageDtype", "Normalize", "Resize", "CenterCrop", "RandomCrop",
           "RandomResizedCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "Pad", "Grayscale", "ColorJitter", "RandomErasing", "RandomApply", "RandomChoice",
           "RandomGrayscale", "RandomRotation", "GaussianBlur", "rotate", "gaussian_blur",
           "to_tensor", "pil_to_tensor", "to_pil_image", "convert_dtype", "normalize", "resize", "crop", "center_crop", "resized_crop", "hflip", "vflip", "pad", "rgb_to_grayscale",
           "adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_hue", "erase"]


class InterpolationMode(Enum):
    """How pixels between pixels are made. Where a transform takes one, its name does as well: "bilinear"."""
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


# ----------------------------------------------------------------------------------------------------------- conversions
def _is_pil(image): return type(image).__module__.startswith("PIL.")


def pil_to_tensor(image):
    """A Pillow image as it is stored: uint8 (or its own dtype), channels first."""
    import numpy as np
    if not _is_pil(image): raise TypeError(f"pic should be PIL Image. Got {type(image)}")
    array = np.array(image, copy=True)
    if array.dtype == np.bool_: array = array.astype(np.uint8) * 255
    tensor = rl.from_numpy(array)
    return tensor.unsqueeze(0) if tensor.ndim == 2 else tensor.permute(2, 0, 1).contiguous()


def array_to_tensor(image):
    """A numpy array [height, width(, channels)] as it is, channels first."""
    import numpy as np
    if image.ndim not in (2, 3): raise ValueError(f"pic should be 2/3 dimensional. Got {image.ndim} dimensions.")
    tensor = rl.from_numpy(np.ascontiguousarray(image))
    return tensor.unsqueeze(0) if image.ndim == 2 else tensor.permute(2, 0, 1).contiguous()


def to_tensor(image):
    """An image as a tensor [channels, height, width]: 8-bit values scaled to [0, 1], floats left alone. Pillow images and numpy arrays
    [height, width(, channels)]."""
    import numpy as np
    if isinstance(image, rl.Tensor): raise TypeError("pic should be PIL Image or ndarray. Got a tensor: use convert_dtype")
    tensor = array_to_tensor(image) if isinstance(image, np.ndarray) else pil_to_tensor(image)
    return tensor.to(rl.get_default_dtype()) / 255 if tensor.dtype is rl.uint8 else tensor


def to_pil_image(image):
    """A tensor [channels, height, width] or [height, width], or an array [height, width(, channels)], as a Pillow image; floats are taken to be in [0, 1]."""
    from .io import pillow
    if type(image).__module__ == "numpy": image = array_to_tensor(image)
    if not isinstance(image, rl.Tensor): raise TypeError(f"pic should be Tensor or ndarray. Got {type(image)}.")
    if image.ndim == 2: image = image.unsqueeze(0)
    if image.ndim != 3 or image.shape[0] not in (1, 3, 4): raise ValueError(f"pic should have 1, 3 or 4 channels. Got shape {list(image.shape)}")
    if image.is_floating_point(): image = (image * 255).to(rl.uint8)
    array = image.permute(1, 2, 0).contiguous().numpy()
    return pillow().fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def _largest(dtype): return 1 if dtype.is_floating_point or dtype is rl.bool else rl.iinfo(dtype).max


def convert_dtype(image, dtype=rl.float32, scale=True):
    """Another dtype, values scaled with its range ([0, 1] for floats)."""
    if not isinstance(image, rl.Tensor): raise TypeError(f"Input img should be Tensor Image. Got {type(image)}: ToImage or ToTensor makes one")
    if image.dtype is dtype: return image
    if not scale: return image.to(dtype)
    if image.is_floating_point():
        if dtype.is_floating_point: return image.to(dtype)
        if dtype in (rl.int32, rl.int64) and image.dtype is rl.float32 or dtype is rl.int64 and image.dtype is rl.float64:
            raise RuntimeError(f"The conversion from {image.dtype} to {dtype} cannot be performed safely.")
        return (image * (_largest(dtype) + 1 - 1e-3)).to(dtype)
    if dtype.is_floating_point: return image.to(dtype) / _largest(image.dtype)
    have, want = _largest(image.dtype), _largest(dtype)
    if have > want: return (image // ((have + 1) // (want + 1))).to(dtype)
    return image.to(dtype) * ((want + 1) // (have + 1))


def normalize(image, mean, std, inplace=False):
    """(image - mean) / std, channel by channel."""
    if not isinstance(image, rl.Tensor): raise TypeError(f"img should be Tensor Image. Got {type(image)}: ToTensor makes one")
    if not image.is_floating_point(): raise TypeError(f"Input tensor should be a float tensor. Got {image.dtype}.")
    if image.ndim < 3: raise ValueError(f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {list(image.shape)}")
    mean, std = (rl.as_tensor(v, dtype=image.dtype) for v in (mean, std))
    if bool((std == 0).any()): raise ValueError(f"std evaluated to zero after conversion to {image.dtype}, leading to division by zero.")
    mean, std = (v.view(-1, 1, 1) if v.ndim == 1 else v for v in (mean, std))
    return image.sub_(mean).div_(std) if inplace else (image - mean) / std


# -------------------------------------------------------------------------------------------------------------- geometry
def _both(image, on_tensor):
    """A function of tensors, also for Pillow images."""
    return to_pil_image(on_tensor(pil_to_tensor(image))) if _is_pil(image) else on_tensor(image)


def _size_of(image): return (image.height, image.width) if _is_pil(image) else tuple(image.shape[-2:])


def _pair(size):
    if isinstance(size, numbers.Integral): return int(size), int(size)
    size = tuple(int(s) for s in size)
    return size * 2 if len(size) == 1 else size


def resize(image, size, interpolation="bilinear", max_size=None, antialias=True):
    """Another height and width. One number: the shorter side, the ratio kept."""
    mode = InterpolationMode(interpolation).value
    def on(t):
        h, w = t.shape[-2:]
        if isinstance(size, numbers.Integral) or len(size) == 1:
            short = size if isinstance(size, numbers.Integral) else size[0]
            new = (short, int(short * w / h)) if h <= w else (int(short * h / w), short)
            if max_size is not None and max(new) > max_size: new = tuple(int(max_size * n / max(new)) for n in new)
        else: new = tuple(size)
        if new == (h, w): return t
        batched = t.reshape(-1, *t.shape[-3:]) if t.ndim != 4 else t
        smooth = mode in ("bilinear", "bicubic")
        values = batched if batched.is_floating_point() else batched.to(rl.float32)
        out = F.interpolate(values, new, mode=mode, align_corners=False if smooth else None, antialias=antialias and smooth)
        if not t.is_floating_point(): out = out.round().clamp(0, _largest(t.dtype)).to(t.dtype)
        return out.reshape(*t.shape[:-2], *new)
    return _both(image, on)


def crop(image, top, left, height, width):
    """A rectangle of the image; beyond its edges there are zeros."""
    def on(t):
        h, w = t.shape[-2:]
        part = t[..., max(top, 0):max(top + height, 0), max(left, 0):max(left + width, 0)]
        missing = [max(-left, 0), max(left + width - w, 0), max(-top, 0), max(top + height - h, 0)]
        missing = [min(missing[0], width), min(missing[1], width), min(missing[2], height), min(missing[3], height)]
        return F.pad(part, missing) if any(missing) else part
    return _both(image, on)


def center_crop(image, size):
    height, width = _pair(size)
    h, w = _size_of(image)
    return crop(image, int(round((h - height) / 2.0)), int(round((w - width) / 2.0)), height, width)


def resized_crop(image, top, left, height, width, size, interpolation="bilinear", antialias=True):
    return resize(crop(image, top, left, height, width), _pair(size), interpolation, antialias=antialias)


def hflip(image): return _both(image, lambda t: t.flip(-1))
def vflip(image): return _both(image, lambda t: t.flip(-2))


def rotate(image, angle, interpolation="nearest", expand=False, fill=0):
    """Turned by `angle` degrees against the clock, about the centre. `expand`: the result holds all of the image, instead of keeping its size."""
    mode = InterpolationMode(interpolation).value
    if mode not in ("nearest", "bilinear"): raise ValueError(f"rotate interpolates nearest or bilinear, not {mode}")

    def on(t):
        h, w = t.shape[-2:]
        c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        height, width = (h, w) if not expand else (math.ceil(abs(w * s) + abs(h * c) - 1e-9), math.ceil(abs(w * c) + abs(h * s) - 1e-9))
        y, x = rl.arange(height).view(-1, 1) - (height - 1) / 2, rl.arange(width) - (width - 1) / 2
        grid = rl.stack([(c * x - s * y) * 2 / w, (s * x + c * y) * 2 / h], -1)                     # where each pixel comes from; the edges are at -1 and 1
        values = t.reshape(-1, *t.shape[-3:]).to(t.dtype if t.is_floating_point() else rl.float32)
        sample = lambda v: F.grid_sample(v, grid.to(v.dtype).expand(len(v), -1, -1, -1), mode=mode, align_corners=False)
        out = sample(values)
        if fill: out = out + fill * (1 - sample(rl.ones_like(values[:, :1])))
        out = out.reshape(*t.shape[:-2], height, width)
        return out if t.is_floating_point() else out.round().clamp(0, _largest(t.dtype)).to(t.dtype)
    return _both(image, on)


def gaussian_blur(image, kernel_size, sigma=None):
    """Each pixel becomes the mean of its neighbours, weighted by a bell curve; edges are mirrored. sigma: by default grows with the kernel."""
    sizes = _pair(kernel_size)                                                                      # width, then height, as in torchvision
    if any(k <= 0 or k % 2 == 0 for k in sizes): raise ValueError(f"kernel_size should have odd and positive integers. Got {sizes}")
    sigmas = [0.3 * ((k - 1) * 0.5 - 1) + 0.8 for k in sizes] if sigma is None else [float(sigma)] * 2 if isinstance(sigma, numbers.Number) else [float(s) for s in sigma]
    if any(s <= 0 for s in sigmas): raise ValueError(f"sigma should have positive values. Got {sigmas}")

    def on(t):
        values = t.reshape(-1, 1, *t.shape[-2:]).to(t.dtype if t.is_floating_point() else rl.float32)
        (kx, ky), weights = sizes, []
        for k, s in zip(sizes, sigmas):
            bell = (-0.5 * ((rl.arange(k, dtype=values.dtype) - (k - 1) / 2) / s) ** 2).exp()
            weights.append(bell / bell.sum())
        out = F.pad(values, (kx // 2, kx // 2, ky // 2, ky // 2), mode="reflect")
        out = F.conv2d(F.conv2d(out, weights[0].view(1, 1, 1, -1)), weights[1].view(1, 1, -1, 1)).reshape(t.shape)
        return out if t.is_floating_point() else out.round().clamp(0, _largest(t.dtype)).to(t.dtype)
    return _both(image, on)


def pad(image, padding, fill=0, padding_mode="constant"):
    """Margins (all; left-right and top-bottom; left, top, right, bottom). padding_mode: constant, edge, reflect."""
    if isinstance(padding, numbers.Integral): padding = (padding,)
    left, top, right, bottom = padding * 4 if len(padding) == 1 else padding * 2 if len(padding) == 2 else padding
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}.get(padding_mode)
    if mode is None: raise ValueError("Padding mode should be either constant, edge or reflect")

    def on(t):
        if mode == "constant": return F.pad(t, (left, right, top, bottom), value=fill)
        values = t if t.is_floating_point() else t.to(rl.float32)
        return F.pad(values.reshape(-1, *t.shape[-3:]), (left, right, top, bottom), mode=mode).reshape(*t.shape[:-2], t.shape[-2] + top + bottom, t.shape[-1] + left + right).to(t.dtype)
    return _both(image, on)


# ---------------------------------------------------------------------------------------------------------------- colours
def _kept(image, values):
    """Back in the image's dtype and range."""
    return values.clamp(0, _largest(image.dtype)).to(image.dtype)


def rgb_to_grayscale(image, num_output_channels=1):
    def on(t):
        if t.shape[-3] not in (1, 3): raise ValueError(f"expected 1 or 3 channels, got {t.shape[-3]}")
        gray = t if t.shape[-3] == 1 else _kept(t, (t.narrow(-3, 0, 1) * 0.2989 + t.narrow(-3, 1, 1) * 0.587 + t.narrow(-3, 2, 1) * 0.114))
        return gray.expand(*t.shape[:-3], num_output_channels, *t.shape[-2:])
    return _both(image, on)


def _blend(t, other, ratio): return _kept(t, t * ratio + other * (1.0 - ratio))


def _factor(name, value):
    if value < 0: raise ValueError(f"{name} is not non-negative. Got {value}")
    return value


def adjust_brightness(image, factor):
    factor = _factor("brightness_factor", factor)
    return _both(image, lambda t: _kept(t, t * factor))


def adjust_contrast(image, factor):
    factor = _factor("contrast_factor", factor)
    return _both(image, lambda t: _blend(t, rgb_to_grayscale(t).to(rl.float32).mean((-3, -2, -1), keepdim=True), factor))


def adjust_saturation(image, factor):
    factor = _factor("saturation_factor", factor)
    return _both(image, lambda t: t if t.shape[-3] == 1 else _blend(t, rgb_to_grayscale(t).to(rl.float32), factor))


def adjust_hue(image, factor):
    """Colours turned around the wheel by `factor` of a full turn, in [-0.5, 0.5]."""
    if not -0.5 <= factor <= 0.5: raise ValueError(f"hue_factor ({factor}) is not in [-0.5, 0.5].")

    def on(t):
        if t.shape[-3] == 1: return t
        h, s, v = _to_hsv(convert_dtype(t, rl.float32))
        return convert_dtype(_from_hsv((h + factor) % 1.0, s, v), t.dtype)
    return _both(image, on)


def _to_hsv(t):
    r, g, b = t.unbind(-3)
    high, low = t.amax(-3), t.amin(-3)
    span = high - low
    safe = rl.where(span == 0, 1.0, span)
    red, green, blue = ((high - c) / safe for c in (r, g, b))
    hue = rl.where(high == r, blue - green, rl.where(high == g, 2.0 + red - blue, 4.0 + green - red)) / 6.0
    return rl.where(span == 0, 0.0, hue % 1.0), rl.where(high == 0, 0.0, span / rl.where(high == 0, 1.0, high)), high


def _from_hsv(h, s, v):
    sector = (h * 6.0).floor()
    f = h * 6.0 - sector
    p, q, t = v * (1.0 - s), v * (1.0 - s * f), v * (1.0 - s * (1.0 - f))
    sector = sector.to(rl.int64) % 6
    choose = lambda options: rl.stack(options, 0).gather(0, sector.unsqueeze(0)).squeeze(0)
    return rl.stack([choose([v, q, p, p, t, v]), choose([t, v, v, q, p, p]), choose([p, p, t, v, v, q])], -3)


def erase(image, top, left, height, width, value, inplace=False):
    out = image if inplace else image.clone()
    out[..., top:top + height, left:left + width] = value
    return out


# ------------------------------------------------------------------------------------------------------------- transforms
class Transform:
    """Base of the transforms: the parameters are drawn, then applied. What is given beside the image (its label, say) passes through."""

    def __call__(self, image, *others):
        out = self.apply(image)
        return (out, *others) if others else out

    def apply(self, image): raise NotImplementedError(f"{type(self).__name__} is a Transform without apply(image)")

    def __repr__(self):
        inside = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_"))
        return f"{type(self).__name__}({inside})"


def chance(p): return rl.rand(1).item() < p


class Compose(Transform):
    """One transform after another."""
    def __init__(self, transforms): self.transforms = list(transforms)

    def apply(self, image):
        for t in self.transforms: image = t(image)
        return image


class Lambda(Transform):
    def __init__(self, lambd):
        if not callable(lambd): raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd
    def apply(self, image): return self.lambd(image)


class ToTensor(Transform):
    def apply(self, image): return to_tensor(image)


class PILToTensor(Transform):
    def apply(self, image): return pil_to_tensor(image)


class ToImage(Transform):
    """Pillow images and arrays as tensors of their own dtype."""
    def apply(self, image): return image if isinstance(image, rl.Tensor) else pil_to_tensor(image) if _is_pil(image) else array_to_tensor(image)


class ToPILImage(Transform):
    def apply(self, image): return to_pil_image(image)


class ToDtype(Transform):
    def __init__(self, dtype, scale=False): self.dtype, self.scale = dtype, scale
    def apply(self, image): return convert_dtype(image, self.dtype, self.scale)


class ConvertImageDtype(Transform):
    def __init__(self, dtype=rl.float32): self.dtype = dtype
    def apply(self, image): return convert_dtype(image, self.dtype)


class Normalize(Transform):
    def __init__(self, mean, std, inplace=False): self.mean, self.std, self.inplace = list(mean), list(std), inplace
    def apply(self, image): return normalize(image, self.mean, self.std, self.inplace)


class Resize(Transform):
    def __init__(self, size, interpolation="bilinear", max_size=None, antialias=True): self.size, self.interpolation, self.max_size, self.antialias = size, interpolation, max_size, antialias
    def apply(self, image): return resize(image, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(Transform):
    def __init__(self, size): self.size = _pair(size)
    def apply(self, image): return center_crop(image, self.size)


class RandomCrop(Transform):
    """A rectangle of the given size anywhere in the image (with margins first, if `padding`)."""

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        self.size, self.padding, self.pad_if_needed, self.fill, self.padding_mode = _pair(size), padding, pad_if_needed, fill, padding_mode

    def apply(self, image):
        if self.padding is not None: image = pad(image, self.padding, self.fill, self.padding_mode)
        (h, w), (height, width) = _size_of(image), self.size
        if self.pad_if_needed and (w < width or h < height):
            image = pad(image, (max(width - w, 0), max(height - h, 0)), self.fill, self.padding_mode)
            h, w = _size_of(image)
        if h < height or w < width: raise ValueError(f"Required crop size {(height, width)} is larger than input image size {(h, w)}")
        if (h, w) == (height, width): return image
        top, left = (rl.randint(0, n + 1, size=(1,)).item() for n in (h - height, w - width))
        return crop(image, top, left, height, width)


class RandomResizedCrop(Transform):
    """A part of the image of random area and ratio, resized."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), interpolation="bilinear", antialias=True):
        if scale[0] > scale[1] or ratio[0] > ratio[1]: raise ValueError("Scale and ratio should be of kind (min, max)")
        self.size, self.scale, self.ratio, self.interpolation, self.antialias = _pair(size), scale, ratio, interpolation, antialias

    def apply(self, image):
        h, w = _size_of(image)
        low, high = (math.log(r) for r in self.ratio)
        for _ in range(10):
            area = h * w * rl.empty(1).uniform_(*self.scale).item()
            ratio = math.exp(rl.empty(1).uniform_(low, high).item())
            width, height = int(round(math.sqrt(area * ratio))), int(round(math.sqrt(area / ratio)))
            if 0 < width <= w and 0 < height <= h:
                top, left = (rl.randint(0, n + 1, size=(1,)).item() for n in (h - height, w - width))
                break
        else:                                        # the whole image, as far as the ratio allows
            width = int(round(h * self.ratio[1])) if w / h > self.ratio[1] else w
            height = int(round(w / self.ratio[0])) if w / h < self.ratio[0] else h
            top, left = (h - height) // 2, (w - width) // 2
        return resized_crop(image, top, left, height, width, self.size, self.interpolation, self.antialias)


class RandomHorizontalFlip(Transform):
    def __init__(self, p=0.5): self.p = p
    def apply(self, image): return hflip(image) if chance(self.p) else image


class RandomVerticalFlip(Transform):
    def __init__(self, p=0.5): self.p = p
    def apply(self, image): return vflip(image) if chance(self.p) else image


class Pad(Transform):
    def __init__(self, padding, fill=0, padding_mode="constant"): self.padding, self.fill, self.padding_mode = padding, fill, padding_mode
    def apply(self, image): return pad(image, self.padding, self.fill, self.padding_mode)


class Grayscale(Transform):
    def __init__(self, num_output_channels=1): self.num_output_channels = num_output_channels
    def apply(self, image): return rgb_to_grayscale(image, self.num_output_channels)


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed by random factors, in random order."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        self.brightness, self.contrast, self.saturation = (self._around(n, v, 1, 0, math.inf) for n, v in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)))
        self.hue = self._around("hue", hue, 0, -0.5, 0.5)

    @staticmethod
    def _around(name, value, centre, low, high):
        """The bounds of a factor, None if it stays."""
        if isinstance(value, numbers.Number):
            if value < 0: raise ValueError(f"If {name} is a single number, it must be non negative.")
            value = (max(centre - value, low), centre + value) if name != "hue" else (-value, value)
        if not low <= value[0] <= value[1] <= high: raise ValueError(f"{name} values should be between {low} and {high}, but got {tuple(value)}.")
        return None if value[0] == value[1] == centre else tuple(value)

    def apply(self, image):
        steps = [(adjust_brightness, self.brightness), (adjust_contrast, self.contrast), (adjust_saturation, self.saturation), (adjust_hue, self.hue)]
        for i in rl.randperm(4).tolist():
            change, bounds = steps[i]
            if bounds is not None: image = change(image, rl.empty(1).uniform_(*bounds).item())
        return image


class RandomErasing(Transform):
    """A random rectangle of a tensor overwritten."""

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False): self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    def apply(self, image):
        if not chance(self.p): return image
        h, w = image.shape[-2:]
        low, high = (math.log(r) for r in self.ratio)
        for _ in range(10):
            area = h * w * rl.empty(1).uniform_(*self.scale).item()
            ratio = math.exp(rl.empty(1).uniform_(low, high).item())
            height, width = int(round(math.sqrt(area * ratio))), int(round(math.sqrt(area / ratio)))
            if height < h and width < w:
                top, left = (rl.randint(0, n + 1, size=(1,)).item() for n in (h - height, w - width))
                value = rl.empty(*image.shape[:-2], height, width, dtype=image.dtype).normal_() if self.value == "random" else self.value
                return erase(image, top, left, height, width, value, self.inplace)
        return image


class RandomApply(Transform):
    def __init__(self, transforms, p=0.5): self.transforms, self.p = list(transforms), p
    def apply(self, image): return Compose(self.transforms)(image) if chance(self.p) else image


class RandomChoice(Transform):
    def __init__(self, transforms, p=None):
        self.transforms, self.p = list(transforms), [1.0] * len(transforms) if p is None else list(p)
        if len(self.p) != len(self.transforms): raise ValueError(f"Length of p doesn't match the number of transforms: {len(self.p)} != {len(self.transforms)}")
    def apply(self, image): return self.transforms[rl.multinomial(rl.tensor(self.p), 1).item()](image)


class RandomGrayscale(Transform):
    def __init__(self, p=0.1): self.p = p

    def apply(self, image):
        if not chance(self.p): return image
        return rgb_to_grayscale(image, len(image.getbands()) if _is_pil(image) else image.shape[-3])


class RandomRotation(Transform):
    """Turned by an angle in [-degrees, degrees], or between two."""

    def __init__(self, degrees, interpolation="nearest", expand=False, fill=0):
        if isinstance(degrees, numbers.Number):
            if degrees < 0: raise ValueError("If degrees is a single number, it must be positive.")
            degrees = (-degrees, degrees)
        self.degrees, self.interpolation, self.expand, self.fill = tuple(degrees), interpolation, expand, fill
    def apply(self, image): return rotate(image, rl.empty(1).uniform_(*self.degrees).item(), self.interpolation, self.expand, self.fill)


class GaussianBlur(Transform):
    def __init__(self, kernel_size, sigma=(0.1, 2.0)): self.kernel_size, self.sigma = _pair(kernel_size), (float(sigma),) * 2 if isinstance(sigma, numbers.Number) else tuple(sigma)
    def apply(self, image): return gaussian_blur(image, self.kernel_size, rl.empty(1).uniform_(*self.sigma).item())
