"""Distributions over vectors and matrices."""
from __future__ import annotations

import math

import rushlight as rl
from rushlight import Size

from .._C import warn
from . import constraints
from .continuous import Beta, Chi2
from .distribution import Distribution, checked
from .exp_family import ExponentialFamily
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal", "LowRankMultivariateNormal", "LKJCholesky", "Wishart"]


def _batch_mv(matrix, vector): return rl.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(triangle, x):
    """x' (L L')^-1 x, with L and x of any batch shapes."""
    shape = rl.broadcast_shapes(triangle.shape[:-2], x.shape[:-1])
    triangle = triangle.expand(shape + triangle.shape[-2:])
    x = x.expand(shape + x.shape[-1:])
    return rl.linalg.solve_triangular(triangle, x.unsqueeze(-1), upper=False).pow(2).sum([-2, -1])


def _precision_to_scale_tril(precision):
    """The Cholesky factor of a precision matrix's inverse."""
    flipped = rl.linalg.cholesky(rl.flip(precision, (-2, -1)))
    inverse = rl.transpose(rl.flip(flipped, (-2, -1)), -2, -1)
    return rl.linalg.solve_triangular(inverse, rl.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device), upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors, by one of covariance matrix, precision matrix, or Cholesky factor of the covariance."""

    _spread, _kept = ("loc", "covariance_matrix", "precision_matrix", "scale_tril"), ("_unbroadcasted_scale_tril",)
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                       "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"scale_tril": scale_tril, "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix}
        if sum(value is not None for value in given.values()) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = next((n, v) for n, v in given.items() if v is not None)
        if matrix.dim() < 2:
            raise ValueError(f"{name}{' matrix' if name == 'scale_tril' else ''} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = rl.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        matrix = matrix.expand(batch_shape + (-1, -1))
        setattr(self, name, matrix)
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = scale_tril
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = rl.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)

    def _full(self, matrix): return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)
    @lazy_property
    def scale_tril(self): return self._full(self._unbroadcasted_scale_tril)
    @lazy_property
    def covariance_matrix(self): return self._full(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)
    @lazy_property
    def precision_matrix(self): return self._full(rl.cholesky_inverse(self._unbroadcasted_scale_tril))
    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape))

    def rsample(self, sample_shape=Size()):
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device))

    def _half_log_det(self): return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @checked
    def log_prob(self, value):
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self):
        value = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return value if len(self._batch_shape) == 0 else value.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors whose covariance is W W' + diag(D), with a thin W."""

    _spread, _kept = ("loc", "cov_factor", "cov_diag"), ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")
    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2), "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        event_shape = loc.shape[-1:]
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        batch_shape = rl.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_factor, self.cov_diag = (loc.expand(batch_shape + (-1,)), cov_factor.expand(batch_shape + cov_factor.shape[-2:]),
                                                    cov_diag.expand(batch_shape + (-1,)))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = rl.linalg.cholesky(self._capacitance(cov_factor, cov_diag))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    @staticmethod
    def _capacitance(w, d):
        """I + W' D^-1 W: what the determinant and the inverse reduce to."""
        scaled = w.mT / d.unsqueeze(-2)
        return scaled @ w + rl.eye(w.shape[-1], dtype=w.dtype, device=w.device)

    mean = mode = property(lambda self: self.loc)
    @lazy_property
    def variance(self): return (self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag).expand(self._batch_shape + self._event_shape)
    def _full(self, matrix): return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)
    @lazy_property
    def scale_tril(self): return self._full(rl.linalg.cholesky(self.covariance_matrix))
    @lazy_property
    def covariance_matrix(self):
        return self._full(self._unbroadcasted_cov_factor @ self._unbroadcasted_cov_factor.mT + rl.diag_embed(self._unbroadcasted_cov_diag))
    @lazy_property
    def precision_matrix(self):
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        a = rl.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._full(rl.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - a.mT @ a)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        w = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        d = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, w) + self._unbroadcasted_cov_diag.sqrt() * d

    def _log_det(self): return 2 * self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + self._unbroadcasted_cov_diag.log().sum(-1)

    @checked
    def log_prob(self, value):
        diff = value - self.loc
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        distance = (diff.pow(2) / self._unbroadcasted_cov_diag).sum(-1) - _batch_mahalanobis(self._capacitance_tril, _batch_mv(scaled, diff))
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self):
        value = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return value if len(self._batch_shape) == 0 else value.expand(self._batch_shape)


class LKJCholesky(Distribution):
    """Cholesky factors of random correlation matrices; at concentration 1 all matrices alike."""

    _spread, _parts, _kept = ("concentration",), ("_beta",), ("dim",)
    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration=1.0, validate_args=None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        from .utils import broadcast_all
        self.concentration, = broadcast_all(concentration)
        batch_shape = self.concentration.size()
        offset = rl.arange(dim - 1, dtype=self.concentration.dtype)
        offset = rl.cat([offset.new_zeros((1,)), offset])
        beta = offset + 0.5, (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * offset
        self._beta = Beta(*beta)
        super().__init__(batch_shape, Size((dim, dim)), validate_args)

    def sample(self, sample_shape=Size()):
        """The onion method: row by row, a length and a direction."""
        with rl.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            u = rl.randn(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril(-1)
            directions = u / u.norm(dim=-1, keepdim=True)
            directions[..., 0, :].fill_(0.0)
            w = rl.sqrt(y) * directions
            diagonal = rl.clamp(1 - rl.sum(w ** 2, dim=-1), min=rl.finfo(w.dtype).tiny).sqrt()
            return w + rl.diag_embed(diagonal)

    @checked
    def log_prob(self, value):
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = rl.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = rl.sum(order * diagonal.log(), dim=-1)
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        denominator = rl.lgamma(alpha) * n
        numerator = rl.special.multigammaln(alpha - 0.5, n)
        return unnormalized - (0.5 * n * math.log(math.pi) + numerator - denominator)


class Wishart(ExponentialFamily):
    """Random covariance matrices: sums of `df` outer products of normal vectors."""

    _spread, _parts, _kept = ("df", "covariance_matrix", "precision_matrix", "scale_tril"), ("_chi2",), ("_unbroadcasted_scale_tril",)
    support = constraints.positive_definite
    has_rsample = True

    @property
    def arg_constraints(self):
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
                "df": constraints.greater_than(self.event_shape[-1] - 1)}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None) -> None:
        given = {"scale_tril": scale_tril, "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix}
        if sum(value is not None for value in given.values()) != 1:
            raise ValueError("Expected exactly one of covariance_matrix or precision_matrix or scale_tril to be specified.")
        name, matrix = next((n, v) for n, v in given.items() if v is not None)
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, rl.Tensor) else rl.tensor(df, dtype=matrix.dtype)
        batch_shape, event_shape = rl.broadcast_shapes(matrix.shape[:-2], df.shape), matrix.shape[-2:]
        if not df.gt(event_shape[-1] - 1).all():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self._unbroadcasted_scale_tril = (scale_tril if name == "scale_tril" else rl.linalg.cholesky(covariance_matrix) if name == "covariance_matrix"
                                          else _precision_to_scale_tril(precision_matrix))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if self.df.lt(event_shape[-1]).any():
            warn("Low df values detected: below the dimension of the matrices (df > ndim - 1 is allowed) samples are often singular.")
        self._chi2 = Chi2(df=self.df.unsqueeze(-1) - rl.arange(event_shape[-1], dtype=matrix.dtype).expand(batch_shape + (-1,)))

    def _full(self, matrix): return matrix.expand(self._batch_shape + self._event_shape)
    @lazy_property
    def scale_tril(self): return self._full(self._unbroadcasted_scale_tril)
    @lazy_property
    def covariance_matrix(self): return self._full(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)
    @lazy_property
    def precision_matrix(self): return self._full(rl.cholesky_inverse(self._unbroadcasted_scale_tril))
    mean = property(lambda self: self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return rl.where(factor <= 0, math.nan, factor).view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (self.covariance_matrix.pow(2) + rl.einsum("...i,...j->...ij", diagonal, diagonal))

    def rsample(self, sample_shape=Size(), max_try_correction: int = 10):
        """Matrices by Bartlett's decomposition, drawn again (a few times) where rounding left them singular.

        torch takes the first draw for singular exactly when it is not, so every matrix that it gives is a second one. For the same seed these are the same.
        """
        sample = self._bartlett(Size(sample_shape))
        regular = self._regular(sample, rl.any)
        for again in (regular, ~regular):
            for _ in range(max_try_correction):
                if not again.any():
                    break
                new = self._bartlett(Size((int(again.sum()),)))
                sample[again] = new
                again = again.masked_scatter(again, ~self._regular(new, rl.all))
        return sample

    def _regular(self, sample, over_batch):
        """Which samples are positive definite, in any or in all of their batch."""
        regular = self.support.check(sample)
        return over_batch(regular.flatten(regular.dim() - len(self._batch_shape)), -1) if self._batch_shape else regular

    def _bartlett(self, sample_shape):
        p = self._event_shape[-1]
        noise = self._chi2.rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        i, j = rl.tril_indices(p, p, offset=-1)
        noise[..., i, j] = rl.randn(tuple(sample_shape) + tuple(self._batch_shape) + (p * (p - 1) // 2,), dtype=noise.dtype, device=noise.device)
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def _log_det(self): return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    @checked
    def log_prob(self, value):
        nu, p = self.df, self._event_shape[-1]
        return (-nu * (p * math.log(2) / 2 + self._log_det()) - rl.special.multigammaln(nu / 2, p) + (nu - p - 1) / 2 * rl.linalg.slogdet(value).logabsdet
                - rl.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(dim=-1) / 2)

    _mean_carrier_measure = 0
    @property
    def _natural_params(self): return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        degrees = y + (p + 1) / 2
        return degrees * (p * math.log(2) - rl.linalg.slogdet(-2 * x).logabsdet) + rl.special.multigammaln(degrees, p)

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        digammas = sum(rl.digamma((nu - k) / 2) for k in range(p))
        return (p + 1) * (p * math.log(2) / 2 + self._log_det()) + rl.special.multigammaln(nu / 2, p) - (nu - p - 1) / 2 * digammas + nu * p / 2
