"""From IR text to the bytes of a relocatable object. llvmlite is imported here and nowhere else, on first use.

`compile(text)` answers (sha, bytes): the sha names the object in the pack and in the disk cache, and is a function of the
text, the kind of machine and the compiler's version only, so two processes that need the same kernel share one object.
"""
import functools
import gc
import hashlib
import os
import platform
import re
import sys
import time
from importlib.machinery import PathFinder

from . import cache

# The symbols the runtime's loader resolves. LLVM invents calls silently (fmodf, __truncsfbf2 ...): a kernel that needs one is a bug
# here, not a crash there.
RUNTIME_SYMBOLS = {'memcpy', 'memset', 'memmove'}
SCHEME = '1'                                  # part of every key: change it when the meaning of a cached object changes

TIERS = {                                     # fixed CPUs the pack is built for; 'host' compiles for this machine only
    'x86-64-v3': ('x86-64-v3', ''),
    'x86-64-v4': ('x86-64-v4', '+prefer-256-bit'),
    'armv8': ('generic', '+neon'),
}
AVX512 = {'avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl'}
times = {'parse': 0.0, 'optimise': 0.0, 'generate': 0.0, 'count': 0}
_machine = {}


@functools.cache
def cpu_flags():
    try:
        with open('/proc/cpuinfo') as f:
            for line in f:
                if line.startswith(('flags', 'Features')): return set(line.split(':', 1)[1].split())
    except OSError: pass
    return set()


def tier():
    """The best tier this machine runs; RUSHLIGHT_CPU overrides ('host' for exactly this CPU)."""
    global _tier
    try: return _tier
    except NameError: pass
    name = os.environ.get('RUSHLIGHT_CPU')
    if not name:
        machine = platform.machine().lower()
        if machine in ('aarch64', 'arm64'): name = 'armv8'
        elif sys.platform.startswith('linux'):
            flags = cpu_flags()
            v3 = {'avx2', 'fma', 'bmi1', 'bmi2', 'f16c', 'movbe'} <= flags
            v4 = v3 and AVX512 <= flags
            name = 'x86-64-v4' if v4 else 'x86-64-v3' if v3 else 'host'
        else: name = 'host'
    _tier = name
    return name


def wide_vectors():
    """Are there 32 registers of 64 bytes? Kernels whose vectors are sized by the machine (templates/tile.py) use them."""
    return tier() == 'x86-64-v4' or tier() == 'host' and AVX512 <= cpu_flags()


def compiler_version():
    """llvmlite's version without importing it: its installation is found beside it. `importlib.metadata` costs more than a first batch of data."""
    global _version
    try: return _version
    except NameError: pass
    spec = PathFinder.find_spec('llvmlite')
    beside = os.path.dirname(os.path.dirname(spec.origin)) if spec is not None and spec.origin else None
    named = [n.split('-')[1] for n in os.listdir(beside) if n.startswith('llvmlite-') and n.endswith('.dist-info')] if beside else []
    if len(named) == 1: _version = named[0].removesuffix('.dist-info')
    else:
        from importlib import metadata
        _version = metadata.version('llvmlite')
    return _version


def kind_of_machine(cpu=None):
    """What keys say of the machine: the tier; of 'host', whose code and tiles are this machine's own, also what that can do (several may share a cache)."""
    name = cpu or tier()
    return f"host {platform.machine()} {' '.join(sorted(cpu_flags()))}" if name == 'host' else name


def object_key(text, cpu=None):
    head = f'{SCHEME} {kind_of_machine(cpu)} llvmlite {compiler_version()}\n'
    return hashlib.sha256((head + text).encode()).hexdigest()[:40]


def machine(cpu):
    if cpu not in _machine:
        import llvmlite.binding as llvm
        if not _machine:
            llvm.set_option('', '--disable-lsr')    # loop strength reduction: a third of code generation, no measured gain here
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        if cpu == 'host':
            target, name, features = llvm.Target.from_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        else:
            name, features = TIERS[cpu]
            triple = 'aarch64-unknown-linux-gnu' if cpu == 'armv8' else 'x86_64-unknown-linux-gnu'
            target = llvm.Target.from_triple(triple)
        # Position independent and small: the loader puts code and its constants side by side.
        _machine[cpu] = target.create_target_machine(cpu=name, features=features, opt=3, reloc='pic', codemodel='small')
    return _machine[cpu]


def optimise(llvm, target, module):
    """Enough for kernels that are written as vectors: the full pipeline takes two to three times as long and gains nothing measured."""
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass(); passes.add_instruction_combine_pass(); passes.add_simplify_cfg_pass(); passes.add_loop_rotate_pass()
    for function in module.functions:
        if not function.is_declaration: passes.run(function, builder)


def generate(text, cpu=None):
    """Optimise and generate code. Returns the object's bytes."""
    import llvmlite.binding as llvm
    target = machine(cpu or tier())
    collecting = gc.isenabled()
    gc.disable()                                # a full collection in the middle would cost more than the compilation
    try:
        t0 = time.perf_counter()
        module = llvm.parse_assembly(text)
        module.triple = target.triple
        module.data_layout = str(target.target_data)
        t1 = time.perf_counter()
        optimise(llvm, target, module)
        t2 = time.perf_counter()
        image = target.emit_object(module)
        t3 = time.perf_counter()
    finally:
        if collecting: gc.enable()
    for name, seconds in (('parse', t1 - t0), ('optimise', t2 - t1), ('generate', t3 - t2)): times[name] += seconds
    times['count'] += 1
    verify_symbols(image)
    return image


def verify_symbols(image):
    """Refuse an object that calls anything outside the runtime's table."""
    import struct
    if image[:4] != b'\x7fELF': return
    shoff, = struct.unpack_from('<Q', image, 40)
    entsize, count, _ = struct.unpack_from('<HHH', image, 58)
    sections = [struct.unpack_from('<IIQQQQIIQQ', image, shoff + i * entsize) for i in range(count)]
    for kind, offset, size, link in ((s[1], s[4], s[5], s[6]) for s in sections):
        if kind != 2: continue                                  # SHT_SYMTAB
        names = sections[link][4]
        for at in range(offset + 24, offset + size, 24):        # the first symbol is null
            name, _, _, section, _, _ = struct.unpack_from('<IBBHQQ', image, at)
            if section == 0 and name:
                end = image.index(b'\0', names + name)
                text = image[names + name:end].decode()
                if text not in RUNTIME_SYMBOLS and not text.startswith('_GLOBAL_OFFSET_TABLE_'):
                    raise RuntimeError(f'compiler: a generated kernel calls {text}(), which the runtime does not provide')


def compile(text, cpu=None):
    """IR text -> (sha, object bytes), through the pack and the disk cache."""
    sha = object_key(text, cpu)
    image = cache.get('object', sha)
    if image is None:
        image = generate(text, cpu)
        cache.put('object', sha, image)
    return sha, image


def assembly(text, cpu=None):
    """The machine code as text, for explain()."""
    import llvmlite.binding as llvm
    target = machine(cpu or tier())
    module = llvm.parse_assembly(text)
    optimise(llvm, target, module)
    return re.sub(r'\n\s*\.(cfi|p2align|type|size|section|ident|file|text)[^\n]*', '', target.emit_assembly(module))
