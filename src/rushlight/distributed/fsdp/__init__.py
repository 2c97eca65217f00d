"""torch.distributed.fsdp: not there yet; using a name raises."""
from rushlight.distributed.absent import absent_names

globals().update(absent_names(__name__, "FullyShardedDataParallel", "CPUOffload", "CPUOffloadPolicy", "MixedPrecision", "MixedPrecisionPolicy", "OffloadPolicy", "ShardingStrategy", "StateDictType", "BackwardPrefetch", "FSDPModule", "fully_shard", "FullStateDictConfig", "FullOptimStateDictConfig"))
