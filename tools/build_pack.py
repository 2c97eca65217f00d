"""Build the kernel pack from a staged copy of the package: `build_pack.py STAGE OUTPUT`. Called by CMake.

The stage goes on sys.path here and not through PYTHONPATH, because that variable is how build front ends pass on the packages of an isolated build.
"""
import sys

stage, output = sys.argv[1:3]
sys.path.insert(0, stage)

from rushlight.compiler.pack import main  # noqa: E402

main([output])
