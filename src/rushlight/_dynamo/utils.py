"""torch._dynamo.utils: what programs ask of it."""


def is_compile_supported(device_type) -> bool: return device_type in ("cpu", None)
def counters(): return {}
