"""What programs ask of torch.xpu before they use it. There is no such device here, and every answer says so."""
from . import absent_device

globals().update(absent_device.names("xpu", "Torch not compiled with XPU enabled"))
