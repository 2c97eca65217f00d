"""Where the operators are known to differ from torch's, and why: the tests (test_opdb.py) expect it, the walk (walk.py) says it."""

# (entry, kind of check): (words that every finding of that kind has, why)
KNOWN = {
    ("as_strided_scatter", "gradient"): ("argument 0", "torch passes the gradient of input where src was written, and none elsewhere: it fails torch's own gradcheck, ours does not"),
    ("nn.functional.linear_cross_entropy/chunked", "gradgrad"): ("torch has None", "torch's chunks can be differentiated once only"),
    ("linalg.norm/subgradients_at_zero", "gradgrad"): ("nan", "the second derivative at the zero vector: NaN in torch, 0 here"),
    ("fft.ihfftn", "out"): ("torch has (0,)", "torch does not fill out="),
}

# The same for complex numbers only.
KNOWN_COMPLEX = {("istft", "gradient"): ("torch has None", "torch has no gradient for the window; ours agrees with differences")}

# What only some samples show, or dtypes that an entry's turn brings: explained where it is met, not missed where it is not.
KNOWN_DEEPER = {
    ("addbmm", "inplace"): ("Bad in-place call", "torch's addbmm_ resizes a tensor that only broadcasts to the result; every other in-place form refuses it, and so does this"),
    ("linalg.vector_norm", "warning"): ("Casting complex", "of one complex number's 0-norm torch keeps a count in a complex number; its warning is about that, nothing is discarded"),
    ("special.bessel_y1", "value"): ("values differ", "torch is off by 3e-7 near 5.576 in float64; ours is within 2e-16 of scipy's"),
    ("special.bessel_j0", "value"): ("values differ", "torch is off by 2e-7 near its zeros in float64, as bessel_y1"),
    ("nn.functional.triplet_margin_loss", "value"): ("values differ", "uint8: torch subtracts bytes, which wrap around; here the distance is that of the numbers"),
    ("nn.functional.conv_transpose3d", "value"): ("values differ", "a hundred products of up to 81 that cancel, added in another order; op_db allows 2e-4 where it states a tolerance"),
    ("fft.hfft2", "value"): ("values differ", "float32, added in another order: 1.4 times as far from the double result as torch's worst element"),
    ("cov", "gradient"): ("off by up to 3.05e-05 beside 3.05e-05", "bfloat16: of weights whose gradient cancels to nothing; torch's is half as far"),
    ("grid_sampler_2d", "gradient"): ("argument 1", "bicubic: float32 cancels in the gradient of the grid; torch's is as far from the double one (3e-5 to 6e-5 of its size)"),
    ("nn.functional.grid_sample", "gradient"): ("argument 1", "as grid_sampler_2d"),
}
