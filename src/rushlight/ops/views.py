"""Views: the same elements under another shape. The runtime computes a new layout over the same storage (csrc/views.cpp and view_ops.cpp),
so these definitions have no bodies; `reshape`, `flatten`, `ravel` and `contiguous` copy when no layout can say what is wanted.

Where a name has several schemas the runtime tells them apart by their order here.
"""
from ..registry import op


def _view(schemas, doc, on="torch Tensor", aliases=()):
    """One native view operator; its name is the schema's."""
    schemas = [schemas] if isinstance(schemas, str) else schemas
    name = schemas[0].partition("(")[0]

    def body(*_):
        raise NotImplementedError(f"{name} is implemented in the runtime")
    body.__doc__, body.__name__ = doc, name
    return op(schemas, native=name, on=on, aliases=aliases, out=False)(body)


# ------------------------------------------------------------------------------------------------------------------ another shape
view = _view(["view(Tensor self, SymInt[] size) -> Tensor", "view(Tensor self, ScalarType dtype) -> Tensor"],
    """The same elements in another shape (one size may be -1), or the same bytes as another dtype; never a copy.

    >>> rushlight.arange(6).view(2, 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """, on="Tensor")
reshape = _view("reshape(Tensor self, SymInt[] shape) -> Tensor", "The same elements in another shape: a view where possible, else a copy.")
view_as = _view("view_as(Tensor self, Tensor other) -> Tensor", "A view in the shape of another tensor.", on="Tensor")
reshape_as = _view("reshape_as(Tensor self, Tensor other) -> Tensor", "The same elements in the shape of another tensor.", on="Tensor")
flatten = _view("flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor", "The dimensions from start_dim to end_dim as one.")
ravel = _view("ravel(Tensor self) -> Tensor", "All elements in one dimension.")
unflatten = _view("unflatten(Tensor self, int dim, SymInt[] sizes) -> Tensor", "One dimension as several; one of the sizes may be -1.")
squeeze = _view(["squeeze(Tensor self) -> Tensor", "squeeze(Tensor self, int dim) -> Tensor", "squeeze(Tensor self, int[] dim) -> Tensor"],
    "Without the dimensions of size 1: all of them, or those given.")
unsqueeze = _view("unsqueeze(Tensor self, int dim) -> Tensor", "With a new dimension of size 1 at `dim`.")
expand = _view("expand(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    "Dimensions of size 1 repeated to a larger size without copying; -1 keeps a size.", on="Tensor")
expand_as = _view("expand_as(Tensor self, Tensor other) -> Tensor", "expand to the shape of another tensor.", on="Tensor")
broadcast_to = _view("broadcast_to(Tensor self, SymInt[] size) -> Tensor", "The tensor broadcast to a shape, without copying.")

# ----------------------------------------------------------------------------------------------------------- another order of dimensions
permute = _view("permute(Tensor self, int[] dims) -> Tensor", "The dimensions in another order.")
transpose = _view("transpose(Tensor self, int dim0, int dim1) -> Tensor", "Two dimensions exchanged.")
t = _view("t(Tensor self) -> Tensor", "A matrix transposed; tensors of fewer dimensions as they are.")
adjoint = _view("adjoint(Tensor self) -> Tensor", "The last two dimensions exchanged, and complex numbers conjugated.")
movedim = _view("movedim(Tensor self, int[1] source, int[1] destination) -> Tensor",
    "Some dimensions moved to other places, the rest in their order.", aliases=("moveaxis",))


def _renamed(name, schema, doc, native, on="torch Tensor"):
    """The same native operator under another name, where the names of parameters differ too."""
    def body(*_):
        raise NotImplementedError(f"{name} is implemented in the runtime")
    body.__doc__, body.__name__ = doc, name
    return op(schema, native=native, on=on, out=False)(body)


swapaxes = _renamed("swapaxes", "swapaxes(Tensor self, int axis0, int axis1) -> Tensor", "transpose by its NumPy name.", "transpose")
swapdims = _renamed("swapdims", "swapdims(Tensor self, int dim0, int dim1) -> Tensor", "Another name of transpose.", "transpose")

# ----------------------------------------------------------------------------------------------------------------- parts of a tensor
select = _view("select(Tensor self, int dim, SymInt index) -> Tensor", "One position along a dimension, which disappears.")
narrow = _view(["narrow(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", "narrow(Tensor self, int dim, Tensor start, SymInt length) -> Tensor"],
    "`length` positions along a dimension, from `start`, a number or an integer tensor of no dimensions.")
slice = _view("slice(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
    "Every step-th position along a dimension, by Python's rules for slices.", on="-")
diagonal = _view("diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    "The diagonal of two dimensions, as the last dimension.")
linalg_diagonal = _renamed("linalg_diagonal", "diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    "The diagonals of matrices, the last two dimensions unless others are named.", "diagonal", on="linalg")
unfold = _view("unfold(Tensor self, int dimension, SymInt size, SymInt step) -> Tensor",
    "All windows of a size along a dimension, `step` apart; the window is the last dimension.", on="Tensor")
as_strided = _view("as_strided(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
    "Any sizes and strides over the tensor's storage.")

# ------------------------------------------------------------------------------------------------------------------ several views
# torch.split calls the same parameter `split_size_or_sections` and the tensor `tensor`.
split = _view(["split(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
    "split(Tensor self, SymInt[] split_size, int dim=0) -> Tensor[]",
    "split(Tensor tensor, SymInt split_size_or_sections, int dim=0) -> Tensor[]",
    "split(Tensor tensor, SymInt[] split_size_or_sections, int dim=0) -> Tensor[]"],
    "Pieces of one size (the last may be smaller), or of the sizes given.")
split_with_sizes = _view("split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]", "Pieces of the sizes given.")
chunk = _view("chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", "At most `chunks` pieces of one size (the last may be smaller).")
unbind = _view("unbind(Tensor self, int dim=0) -> Tensor[]", "Each position along a dimension.")
tensor_split = _view(["tensor_split(Tensor self, SymInt sections, int dim=0) -> Tensor[]",
    "tensor_split(Tensor self, SymInt[] indices, int dim=0) -> Tensor[]",
    "tensor_split(Tensor self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]"],
    "Exactly `sections` pieces, as equal as can be, or cuts at the indices given.")
hsplit = _view(["hsplit(Tensor self, SymInt sections) -> Tensor[]",
    "hsplit(Tensor self, SymInt[] indices) -> Tensor[]"], "Equal pieces along columns.")
vsplit = _view(["vsplit(Tensor self, SymInt sections) -> Tensor[]",
    "vsplit(Tensor self, SymInt[] indices) -> Tensor[]"], "Equal pieces along rows.")
dsplit = _view(["dsplit(Tensor self, SymInt sections) -> Tensor[]",
    "dsplit(Tensor self, SymInt[] indices) -> Tensor[]"], "Equal pieces along the third dimension.")

# --------------------------------------------------------------------------------------------------------------- complex numbers
conj = _view("conj(Tensor self) -> Tensor",
    "The conjugate: a view with a mark, resolved where the values are used. A real tensor as it is.")
_conj = _view("_conj(Tensor self) -> Tensor", "conj.", on="-")
_neg_view = _view("_neg_view(Tensor self) -> Tensor", "The negative: a view with a mark.", on="torch Tensor")
resolve_conj = _view("resolve_conj(Tensor self) -> Tensor", "The tensor, copied if it is marked as conjugated.")
resolve_neg = _view("resolve_neg(Tensor self) -> Tensor", "The tensor, copied if it is marked as negated.")
view_as_real = _view("view_as_real(Tensor self) -> Tensor", "Complex numbers as pairs in a new last dimension.", on="torch")
view_as_complex = _view("view_as_complex(Tensor self) -> Tensor", "Pairs in the last dimension as complex numbers.", on="torch")
real = _view("real(Tensor self) -> Tensor", "The real parts.", on="torch")
imag = _view("imag(Tensor self) -> Tensor", "The imaginary parts.", on="torch")

# ------------------------------------------------------------------------------------------------------------------ the same, again
detach = _view("detach(Tensor self) -> Tensor", "The same data outside the graph; the version counter is shared.")
alias = _view("alias(Tensor self) -> Tensor", "The same data as another tensor in the graph.", on="-")
contiguous = _view("contiguous(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    "The tensor, copied if its elements do not lie densely in the order of the format.", on="Tensor")

# ------------------------------------------------------------------------------------------- in place: the object itself changes its shape
squeeze_ = _view(["squeeze_(Tensor self) -> Tensor",
    "squeeze_(Tensor self, int dim) -> Tensor",
    "squeeze_(Tensor self, int[] dim) -> Tensor"], "squeeze in place.", on="Tensor")
unsqueeze_ = _view("unsqueeze_(Tensor self, int dim) -> Tensor", "unsqueeze in place.", on="Tensor")
transpose_ = _view("transpose_(Tensor self, int dim0, int dim1) -> Tensor", "transpose in place.", on="Tensor")
swapaxes_ = _renamed("swapaxes_", "swapaxes_(Tensor self, int axis0, int axis1) -> Tensor", "swapaxes in place.", "transpose_", on="Tensor")
swapdims_ = _renamed("swapdims_", "swapdims_(Tensor self, int dim0, int dim1) -> Tensor", "swapdims in place.", "transpose_", on="Tensor")
t_ = _view("t_(Tensor self) -> Tensor", "t in place.", on="Tensor")
as_strided_ = _view("as_strided_(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
    "as_strided in place.", on="torch Tensor")
