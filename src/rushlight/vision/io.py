"""Image files as tensors: uint8, channels first."""
from __future__ import annotations

import rushlight as rl

MODES = {"UNCHANGED": None, "GRAY": "L", "GRAY_ALPHA": "LA", "RGB": "RGB", "RGB_ALPHA": "RGBA"}


def pillow():
    try:
        from PIL import Image
    except ImportError: raise ImportError("reading and writing image files needs Pillow: pip install 'rushlight[vision]'") from None
    return Image


def read_image(path, mode="UNCHANGED"):
    """The image in a file as a uint8 tensor [channels, height, width]. mode: UNCHANGED, GRAY, GRAY_ALPHA, RGB or RGB_ALPHA."""
    if mode not in MODES: raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    from .transforms import pil_to_tensor
    with pillow().open(path) as image:
        if MODES[mode] is not None: image = image.convert(MODES[mode])
        elif image.mode == "P": image = image.convert("RGBA" if "transparency" in image.info else "RGB")
        return pil_to_tensor(image)


def write_png(image, path):
    """Write a uint8 tensor [1 or 3 or 4 channels, height, width] as PNG."""
    if image.dtype is not rl.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3, 4):
        raise ValueError(f"write_png takes a uint8 tensor of 1, 3 or 4 channels first, not {image.dtype} of shape {list(image.shape)}")
    from .transforms import to_pil_image
    to_pil_image(image).save(path, format="PNG")
