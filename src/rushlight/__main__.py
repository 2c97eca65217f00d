"""The `rushlight` command: `rushlight demo`, `rushlight info`, `rushlight run script.py`."""
from __future__ import annotations

import argparse
import os
import sys


def cpu_features() -> list[str]:
    """What the processor offers of what the compiler uses, from the system's own list."""
    wanted = ("avx", "avx2", "fma", "f16c", "bmi2", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_vnni", "amx_tile",
              "neon", "asimd", "asimdhp", "bf16", "i8mm", "sve", "sve2")
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    have = set(line.split(":", 1)[1].split())
                    return [name for name in wanted if name in have]
    except OSError:
        pass
    return []


def cpu_name() -> str:
    import platform
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cache_directory() -> str:
    """Where compiled kernels are kept."""
    from rushlight.compiler import cache
    return str(cache.directory())


def directory_size(path: str) -> tuple[int, int]:
    """(files, bytes) below a directory; zero if there is none."""
    files = size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                size += os.path.getsize(os.path.join(folder, name))
                files += 1
            except OSError:                  # removed while we looked
                pass
    return files, size


def _readable(size: int) -> str:
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def info() -> None:
    """Version, machine, threads, cache."""
    import platform

    import rushlight
    files, size = directory_size(cache_directory())
    rows = [("rushlight", rushlight.version.__version__), ("follows", "PyTorch " + rushlight.version.torch), ("python", platform.python_version()), ("platform", platform.platform()),
            ("cpu", cpu_name()), ("features", " ".join(cpu_features()) or "unknown"), ("cores", str(os.cpu_count())),
            ("threads", str(rushlight.get_num_threads())), ("cache", cache_directory()),
            ("cache size", f"{_readable(size)} in {files} files")]
    for name, value in rows:
        print(f"{name:<11} {value}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rushlight", description="A deep-learning framework with PyTorch's API.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo_parser = commands.add_parser("demo", help="train a small network on handwritten digits")
    demo_parser.add_argument("--output", default=".", help="where the checkpoint and the picture go (default: here)")
    demo_parser.add_argument("--epochs", type=int, default=30, help="passes over the data (default: 30)")
    demo_parser.add_argument("--seed", type=int, default=0)
    commands.add_parser("info", help="print version, CPU features, threads, cache")
    run_parser = commands.add_parser("run", help="run a program that says `import torch`, unmodified")
    run_parser.add_argument("-m", dest="module", action="store_true", help="the program is a module's name, as with `python -m`")
    run_parser.add_argument("program", nargs=argparse.REMAINDER, metavar="script [arguments]")
    options = parser.parse_args(arguments)
    if options.command == "run":
        if not options.program:
            run_parser.error("which program?")
        from rushlight import as_torch
        as_torch.run(options.program, options.module)
        return 0
    if options.command == "info":
        info()
        return 0
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    from rushlight import demo
    score = demo.main(options.output, options.epochs, options.seed)
    return 0 if score > 0.97 or options.epochs < 10 else 1


if __name__ == "__main__":
    sys.exit(main())
