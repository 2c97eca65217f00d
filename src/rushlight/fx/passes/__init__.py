"""torch.fx.passes: ready-made walks over graphs."""
