"""What programs ask of torch.mtia before they use it. There is no such device here, and every answer says so."""
from . import absent_device

globals().update(absent_device.names("mtia", "Torch not compiled with MTIA enabled"))
