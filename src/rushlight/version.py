__version__ = "0.1.0"
torch = "2.13.0"            # the PyTorch whose behaviour is followed
cuda = hip = rocm = xpu = None
debug = False
git_version = "Unknown"
