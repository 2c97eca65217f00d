"""torch.distributed.rpc: not there yet; using a name raises."""
from rushlight.distributed.absent import absent_names

globals().update(absent_names(__name__, "init_rpc", "shutdown", "rpc_sync", "rpc_async", "remote", "RRef", "WorkerInfo", "TensorPipeRpcBackendOptions", "get_worker_info"))


def is_available() -> bool: return False
def _is_current_rpc_agent_set() -> bool: return False
