"""torch.distributed.tensor.parallel: not there yet; using a name raises."""
from rushlight.distributed.absent import absent_names

globals().update(absent_names(__name__, "ParallelStyle", "ColwiseParallel", "RowwiseParallel", "SequenceParallel", "PrepareModuleInput", "PrepareModuleOutput", "parallelize_module", "loss_parallel"))
