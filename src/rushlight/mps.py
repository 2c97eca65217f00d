"""What programs ask of torch.mps before they use it. There is no such device here, and every answer says so."""
from . import absent_device

globals().update(absent_device.names("mps", "Torch not compiled with MPS enabled"))
