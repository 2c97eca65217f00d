"""x[...] and x[...] = v: torch's results, aliasing and errors, for keys of every kind."""
import random
import warnings

import numpy as np
import pytest
import torch

import rushlight as rl

# Statements run in both libraries. T makes a tensor; x is 3 by 4 of int64, f is 2 by 3 of float32, c is 2 by 3 by 4.
GETS = """x[5]; x[-4]; x[0,0,0]; x[0,...,0,0]; x[0,...,...,0]; x[...,0,...]; x[::-1]; x[::0]; x['a']; x[1.5]; x[0,1.5]
x[{}]; x[()]; x[[]]; x[[0,1]]; x[[0,1],[1,2]]; x[[slice(0,1),1]]; x[[[0,1],[1,2]]]; x[[[0,1],[1,2]],0]
x[[True,False,True]]; x[[True,False]]; x[True]; x[False]; x[True,0]; x[0,True]; x[None]; x[:,None,...,None]
x[T(1)]; x[T(True)]; x[T([1,0,1],dtype=lib.uint8)]; x[T([1,0],dtype=lib.int8)]; x[T(1,dtype=lib.int16)]
x[T([1,0],dtype=lib.int32)]; x[T([1.,0])]; x[T(1.)]; x[:,T([True,False])]; x[x>5]; x[T([[True]])]; x[T([5])]
x[T([-5])]; x[T([0,1]),T([0,1,2])]; x[T([0,1]),T([0,1]),T([0])]; x[np.array([0,1])]
x[np.array([True,False,True])]; x[np.int64(1)]; x[np.int64(1),np.array(2)]; x[np.float32(1)]; x[range(2)]
x[T([0,1]),None,T([0,1])]; c[T([0,1]),:,T([0,1])]; c[:,T([0,1]),T([0,1])]; c[0,:,T([0,1])]; c[[0],:,0]
c[T(0),:,[0,1]]; c[True,:,[0,1]]; T(3)[0]; T(3)[:]; T(3)[...]; T(3)[None]; T(3)[T([0])]; T(3)[True]; f[2**70]
f[:2**70]; f[5:2]; f[-100:100:2]; f[slice('a')]; f[slice(T(1),None)]""".replace("\n", ";").split(";")
SETS = """f[0]=5; f[:,:2]=T([1,2]); f[:,:2]=T([1,2,3]); f[:]=T([1,2]); f[0]=T([[1,2,3]]); f[0]=T([[1,2,3],[1,2,3]])
f[0]=[1,2,3]; f[0]=np.array([1,2,3]); f[0]=np.float32(3); f[0]='a'; f[0]=None; f[0]=1j; x[0]=1.7
x.int()[0,0]=2**40; x[0,0]=2**70; x.byte()[0,0]=300; f[f>1]=5; f[T([True,False])]=5
f[:,T([True,False,True])]=T([1.,2.]); f[:,T([True,False,True])]=T([1.,2.,3.]); f[T([0,1]),T([0,1])]=T([1,2])
f[T([0,1]),T([0,1])]=T([1.,2,3]); f[T([0,1]),T([0,1])]=5; f[T([0,1]),T([0,1])]=T([[1.,2]]); f[T([0,9])]=T(5.)
f[T([True])]=T(5.); f[True]=1; f[False]=1; f[None]=1; f[...]=T([1.,2,3]); f[()]=1; f[T(0)]=1
f[T(0),T(True)]=1; f[0,0,0]=1; f[7]=1; f[0,0]=1e300; f[0]=T(5); f[0]=True; f[[0,1]]=T([[1.,2,3],[4,5,6]])
f[0,[0,1]]=T([True,False]); f[f==0]=T([1.]); f[T([True,True]),0]=T([7.]); f[0:1]=f[1:2]; x[0]=T(1.9)
x[[0,1]]=1.9; x[0,0]=np.int64(4)""".replace("\n", ";").split(";")


def run(statement, lib):
    c = lib.arange(24).reshape(2, 3, 4)
    names = {"lib": lib, "T": lib.tensor, "np": np, "x": lib.arange(12).reshape(3, 4), "f": lib.arange(6).reshape(2, 3).float(), "c": c}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if "=" in statement.replace("==", "").replace("dtype=", ""):
                exec(statement, names)
                return [names[k].tolist() for k in "xf"]
            result = eval(statement, names)
            shared = result.numel() > 0 and any(result.untyped_storage().data_ptr() == names[k].untyped_storage().data_ptr() for k in "xfc")
            return tuple(result.shape), result.tolist(), shared
        except Exception as problem:
            return type(problem), str(problem)[:35]


@pytest.mark.parametrize("statement", [s.strip() for s in GETS + SETS])
def test_same_as_torch(statement):
    assert run(statement, rl) == run(statement, torch)


def key_item(choose, shape, dim):
    """One item of a random key as (build for a library, dimensions it covers)."""
    n = shape[dim] if dim < len(shape) else 3
    r = choose.random()
    if r < 0.25 and n:
        i = choose.randint(-n, n - 1)
        return (lambda lib: i), 1
    if r < 0.55:
        bound = lambda: choose.choice([None, choose.randint(-n - 2, n + 2)])
        s = slice(bound(), bound(), choose.choice([None, 1, 2, 3]))
        return (lambda lib: s), 1
    if r < 0.62:
        return (lambda lib: None), 0
    if r < 0.66:
        b = choose.random() < 0.6
        return (lambda lib: b), 0
    if r < 0.82 and n:
        size = choose.choice([(1,), (2,), (3,), (2, 1), (2, 3)])
        v = np.array([choose.randint(-n, n - 1) for _ in range(int(np.prod(size)))]).reshape(size).tolist()
        return (lambda lib: lib.tensor(v) if len(v) % 2 else v), 1
    if dim < len(shape) and n:
        v = [choose.random() < 0.5 for _ in range(n)]
        return (lambda lib: lib.tensor(v)), 1
    return (lambda lib: slice(None)), 1


@pytest.mark.parametrize("seed", range(25))
def test_random_keys(seed):
    choose = random.Random(seed)
    for _ in range(6):
        shape = [choose.choice([1, 2, 3, 4]) for _ in range(choose.randint(1, 4))]
        items, dim = [], 0
        for _ in range(choose.randint(1, len(shape) + 1)):
            build, covers = key_item(choose, shape, dim)
            if dim + covers <= len(shape):
                items.append(build)
                dim += covers
        if choose.random() < 0.3:
            items.append(lambda lib: Ellipsis)
        if not items:
            continue
        said = []
        for lib in (torch, rl):
            x = lib.arange(int(np.prod(shape))).reshape(shape).float()
            x = x.transpose(0, -1) if seed % 3 == 0 and shape[0] == shape[-1] else x
            key = tuple(build(lib) for build in items)
            try:
                y = x[key]
                x[key] = 7.5
                said.append((tuple(y.shape), y.tolist(), x.tolist()))
            except Exception as problem:
                said.append((type(problem), str(problem)[:30]))
        assert said[0] == said[1], (shape, key)
