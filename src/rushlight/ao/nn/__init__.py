"""torch.ao.nn: quantised modules: not there yet."""
