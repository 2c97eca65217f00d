"""A few extreme eigenvalues of a big symmetric matrix, by its products alone: locally optimal block preconditioned conjugate gradients (Knyazev, SIAM J. Sci. Comput. 23, 2001).

The search space of a step is spanned by the present vectors X, the preconditioned residuals W and the last direction P; the Ritz vectors of the space become the next X. The basis is orthogonalised
(in the metric of B) before each Rayleigh-Ritz step, so that the small problem is an ordinary symmetric one (Duersch, Shao, Yang and Gu, 2018).
"""
from __future__ import annotations

import rushlight as rl


def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None, ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):
    """The `k` largest (or smallest) eigenvalues and their vectors, as columns, of a symmetric positive definite matrix A, or of the pair A x = lambda B x.

    `X`: where to begin (random otherwise, from the default generator), of n >= k columns; `iK`: a preconditioner, near the inverse of A; `tol`: of the residual's length beside those of A and the vector.
    `tracker(worker)` is called before each step. Gradients flow to a dense A, if B is None. Method 'basic' and the `ortho_` parameters choose among torch's variants of the same iteration; here there is one.
    """
    if method not in (None, "basic", "ortho"):
        raise RuntimeError(f"LOBPCG method {method!r} is unknown: it is 'basic' or 'ortho'")
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"lobpcg: A must be square matrices, and is of shape {tuple(A.shape)}")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    m = A.shape[-1]
    if m < 3 * n:
        raise ValueError(f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of requested eigenpairs (={n})")
    if not 0 < k <= n:
        raise ValueError(f"lobpcg: k must be between 1 and the number of columns of X, {n}, and is {k}")
    recorded = rl.is_grad_enabled() and (A.requires_grad or B is not None and B.requires_grad)
    if recorded and (B is not None or A.layout is not rl.strided):
        raise ValueError("lobpcg has a derivative for a dense A without B only")
    precision = rl.finfo(A.dtype).eps ** 0.5 if tol is None else tol
    options = (k, B, X, n, iK, 1000 if niter is None else niter, precision, True if largest is None else largest, tracker)
    return _Eigenpairs.apply(A, *options) if recorded else _solved(A, *options)


def _solved(A, k, B, X, n, iK, niter, tol, largest, tracker):
    with rl.no_grad():
        if A.dim() == 2: return Search(A, k, B, X, n, iK, niter, tol, largest, tracker).run()
        batch, size = A.shape[:-2], A.shape[-1]
        flat = [None if t is None else t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (A, B, X, iK)]
        found = [Search(flat[0][i], k, *(None if t is None else t[i] for t in flat[1:3]), n, None if flat[3] is None else flat[3][i], niter, tol, largest, tracker).run() for i in range(flat[0].shape[0])]
        return rl.stack([e for e, _ in found]).reshape(*batch, k), rl.stack([x for _, x in found]).reshape(*batch, size, k)


class Search:
    """One iteration under way; what a tracker may look at: `E`, `X`, `R` (residuals), `ivars['istep']`, `ivars['converged_count']`."""

    def __init__(self, A, k, B, X, n, iK, niter, tol, largest, tracker):
        self.A, self.B, self.iK, self.k, self.niter, self.tol, self.tracker = A, B, iK, k, niter, tol, tracker
        self.sign = -1.0 if largest else 1.0                   # the smallest of sign * A are searched for
        start = rl.randn(A.shape[-1], n, dtype=A.dtype) if X is None else X
        self.ivars = {"istep": 0, "converged_count": 0}
        self.P = None
        self.X, self.E = self._ritz(self._orthonormal(start), n)
        self.R = self._residual()

    def _times(self, matrix, x): return x if matrix is None else matrix @ x

    def _orthonormal(self, S, beside=None):
        """Columns that span those of S (without what lies in `beside`), orthonormal in B; directions that were nearly dependent are left out."""
        for _ in range(2):                                     # once is not enough where much is taken away
            if beside is not None: S = S - beside @ (beside.mT @ self._times(self.B, S))
            S = S / S.norm(dim=0).clamp_min(rl.finfo(S.dtype).tiny)
            values, vectors = rl.linalg.eigh(S.mT @ self._times(self.B, S))
            kept = values > values[-1] * S.shape[1] * rl.finfo(S.dtype).eps * 8
            S = S @ (vectors[:, kept] / values[kept].sqrt())
        return S

    def _ritz(self, S, count):
        """The best vectors of an orthonormal basis, and their values."""
        H = S.mT @ (self.A @ S)
        values, vectors = rl.linalg.eigh(self.sign * (H + H.mT) / 2)
        self.chosen = vectors[:, :count]
        return S @ self.chosen, self.sign * values[:count]

    def _residual(self): return self.A @ self.X - self._times(self.B, self.X) * self.E

    def _converged(self) -> int:
        """How many of the first vectors are within the tolerance."""
        scale = self.A_norm + self.E.abs() * self.B_norm
        close = self.R.norm(dim=0) <= self.tol * scale * self.X.norm(dim=0)
        return int(close[:self.k].long().cumprod(0).sum())

    def run(self):
        probe = rl.randn(self.A.shape[-1], self.X.shape[1], dtype=self.A.dtype, generator=rl.Generator().manual_seed(0))
        size = probe.norm()
        self.A_norm, self.B_norm = (self.A @ probe).norm() / size, 1.0 if self.B is None else (self.B @ probe).norm() / size
        n = self.X.shape[1]
        while True:
            self.ivars["converged_count"] = self._converged()
            if self.tracker is not None: self.tracker(self)
            if self.ivars["converged_count"] >= self.k or self.ivars["istep"] >= self.niter: break
            W = self._times(self.iK, self.R)
            further = self._orthonormal(W if self.P is None else rl.cat([W, self.P], 1), self.X)
            if not further.shape[1]: break                     # nothing new to search: the vectors are as good as the precision allows
            S, before = rl.cat([self.X, further], 1), self.X
            self.X, self.E = self._ritz(S, n)
            self.P = further @ self.chosen[before.shape[1]:]
            self.R = self._residual()
            self.ivars["istep"] += 1
        return self.E[:self.k], self.X[:, :self.k]


class _Eigenpairs(rl.autograd.Function):
    """The derivative of k eigenpairs of a dense symmetric matrix. Of a value it is x xᵀ; of a vector, the solution of (A - lambda) z = the part of its gradient across all k vectors, which borders make
    unique, and the usual quotients of differences among the k."""

    @staticmethod
    def forward(ctx, A, *options):
        E, X = _solved(A.detach(), *options)
        ctx.save_for_backward(A, E, X)
        return E, X

    @staticmethod
    def backward(ctx, gE, gX):
        A, E, X = ctx.saved_tensors
        k, size = E.shape[-1], A.shape[-1]
        inner = rl.zeros_like(A[..., :k, :k]) if gE is None else rl.diag_embed(gE)
        if gX is None: return (X @ inner @ X.mT, *[None] * 9)
        overlap = X.mT @ gX
        gaps = E.unsqueeze(-2) - E.unsqueeze(-1)
        gaps.diagonal(dim1=-2, dim2=-1).fill_(float("inf"))
        grad = X @ (inner + overlap / gaps) @ X.mT
        across = (gX - X @ overlap).mT.unsqueeze(-1)                                           # (..., k, size, 1)
        shifted = A.unsqueeze(-3) - E[..., None, None] * rl.eye(size, dtype=A.dtype)
        border = X.unsqueeze(-3).expand(*shifted.shape[:-1], k)
        system = rl.cat([rl.cat([shifted, border], -1), rl.cat([border.mT, A.new_zeros(*shifted.shape[:-2], k, k)], -1)], -2)
        z = rl.linalg.solve(system, rl.cat([across, A.new_zeros(*across.shape[:-2], k, 1)], -2))[..., :size, 0]
        grad = grad - z.mT @ X.mT
        return ((grad + grad.mT) / 2, *[None] * 9)
