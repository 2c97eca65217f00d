"""Images: reading, transforms in the style of torchvision's v2, readers for the usual data sets. Pillow is needed for image files only
(`pip install 'rushlight[vision]'`)."""
from . import datasets, transforms  # noqa: F401
from .io import read_image, write_png  # noqa: F401
