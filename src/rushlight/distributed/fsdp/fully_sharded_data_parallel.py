"""torch.distributed.fsdp.fully_sharded_data_parallel: not there yet; using a name raises."""
from rushlight.distributed.absent import absent_names

globals().update(absent_names(__name__, "FullyShardedDataParallel", "FullStateDictConfig", "FullOptimStateDictConfig", "ShardedStateDictConfig", "ShardedOptimStateDictConfig", "StateDictType"))
