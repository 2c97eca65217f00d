"""torch.distributed.algorithms: not there yet."""
