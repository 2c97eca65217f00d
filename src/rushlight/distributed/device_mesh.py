"""torch.distributed.device_mesh: not there yet; using a name raises."""
from rushlight.distributed.absent import absent_names

globals().update(absent_names(__name__, "DeviceMesh", "init_device_mesh", "_mesh_resources"))
