"""torch.distributed.tensor.placement_types: not there yet; using a name raises."""
from rushlight.distributed.absent import absent_names

globals().update(absent_names(__name__, "Shard", "Replicate", "Partial", "Placement", "_StridedShard"))
