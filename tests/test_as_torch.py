"""`import torch` meaning Rushlight: in a process of its own, since the test process may have the real one."""
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import rushlight

HERE = {**os.environ, "PYTHONPATH": str(pathlib.Path(rushlight.__file__).parents[1])}      # the package under test, from any folder


def run(*arguments, code=None):
    command = [sys.executable, *(["-c", textwrap.dedent(code)] if code else []), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=HERE)


def test_modules_are_the_same_objects_and_absent_ones_raise_under_torchs_name():
    done = run(code="""
        import rushlight
        rushlight.install_as_torch()
        rushlight.install_as_torch()                       # again: nothing
        import torch, torch.nn.functional as F
        from torch.optim.lr_scheduler import StepLR
        from torch.utils.data import DataLoader
        assert torch is rushlight and F is rushlight.nn.functional and torch.__name__ == "torch"
        assert StepLR is rushlight.optim.lr_scheduler.StepLR and torch.nn.modules.linear.Linear is rushlight.nn.Linear
        try:
            import torch.no_such_part
        except ModuleNotFoundError as error:
            assert error.name == "torch.no_such_part" and "torch.no_such_part" in str(error)
        else:
            raise SystemExit("found what is not there")
        assert torch.__version__ >= (2, 0) and torch.__version__ < "3" and torch.__version__.startswith("2.13.0+rushlight")
        print("fine")
    """)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


def test_metadata_answers_for_torch_where_it_is_not_installed():
    done = run("-I", code="""
        import sys
        sys.path[:] = [p for p in sys.path if "site-packages" not in p] + %r
        import importlib.metadata
        from rushlight.as_torch import TorchFinder
        found = list(TorchFinder().find_distributions(importlib.metadata.DistributionFinder.Context(name="torch")))
        assert [d.version for d in found] == ["2.13.0"]
        assert not list(TorchFinder().find_distributions(importlib.metadata.DistributionFinder.Context(name="numpy")))
    """ % [p for p in sys.path if p])
    assert done.returncode == 0, done.stderr


def test_a_real_torch_that_is_loaded_already_is_not_replaced():
    done = run(code="""
        import sys, types, rushlight
        sys.modules["torch"] = types.ModuleType("torch")
        try:
            rushlight.install_as_torch()
        except ImportError as error:
            assert "already imported" in str(error)
        else:
            raise SystemExit("replaced it")
    """)
    assert done.returncode == 0, done.stderr


def test_run_a_script_with_arguments(tmp_path):
    (tmp_path / "helper.py").write_text("import torch\nVALUE = torch.ones(2).sum().item()\n")
    script = tmp_path / "program.py"
    script.write_text("import sys, torch, helper\nassert __name__ == '__main__'\nprint(sys.argv[1:], helper.VALUE, torch.arange(3).tolist())\n")
    done = run("-m", "rushlight", "run", str(script), "--epochs", "3")
    assert done.returncode == 0 and done.stdout == "['--epochs', '3'] 2.0 [0, 1, 2]\n", done.stderr
    assert run("-m", "rushlight", "run", str(tmp_path / "absent.py")).returncode != 0


def test_run_a_module(tmp_path):
    (tmp_path / "program.py").write_text("import torch\nprint(torch.zeros(1).shape)\n")
    done = subprocess.run([sys.executable, "-m", "rushlight", "run", "-m", "program"], capture_output=True, text=True, cwd=tmp_path, env=HERE)
    assert done.returncode == 0 and done.stdout == "torch.Size([1])\n", done.stderr


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("how", ["script", "module"])
def test_processes_of_a_program_find_it_too(method, how, tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import sys, torch
        from torch.utils.data import DataLoader, Dataset
        class Numbers(Dataset):
            def __len__(self): return 6
            def __getitem__(self, i): return torch.full((2,), float(i))
        if __name__ == "__main__":
            print([b[:, 0].tolist() for b in DataLoader(Numbers(), batch_size=3, num_workers=2, multiprocessing_context=sys.argv[1])])
    """))
    done = subprocess.run([sys.executable, "-m", "rushlight", "run", *(["-m", "program"] if how == "module" else ["program.py"]), method], capture_output=True, text=True, cwd=tmp_path, env=HERE)
    assert done.returncode == 0 and done.stdout == "[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]\n", done.stderr
