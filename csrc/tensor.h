// What tensor.cpp, tensor_methods.cpp and views.cpp share and nobody else needs.
#pragma once
#include "runtime.h"
#include "compat.h"
#include "tape.h"

namespace rl {

Tensor* tensor_wrap_in(PyTypeObject*, Layout*, Storage*, int64_t offset);   // as tensor_wrap, for a subclass
inline void version_share(Tensor* from, Tensor* to) {   // `to`, over the same storage, counts with `from`
  to->version = from->version;
  if (to->version) ++to->version->rc;
}
bool version_own(Tensor*, uint32_t value);         // give the tensor a counter of its own (its storage is about to change, or `.data`)
bool set_requires_grad(Tensor*, bool);             // with torch's checks
bool set_layout(Tensor*, Layout* /*taken*/, int64_t offset);
extern PyMethodDef tensor_methods[];
PyObject* check_subclass(PyObject* cls);           // cls (borrowed) when it is a subclass of Tensor, else TypeError

// views.cpp
Tensor* make_view_in(PyTypeObject*, Tensor* base, ViewSpec spec, Layout* layout /*taken*/, int64_t offset);
bool wrap_dim(int64_t dim, int ndim, int* out);    // negative dims; IndexError with torch's words. A 0-dim tensor has the dims -1 and 0
bool warn_of_lost_gradient(const Tensor*);         // of float() and complex(), once; false: the warning became an error
Tensor* view_transpose(Tensor*, int64_t a, int64_t b, const char* name);
Tensor* view_reversed(Tensor*);                    // .T
Tensor* view_conj(Tensor*);                        // new; the tensor itself when real
Tensor* view_neg(Tensor*);
Tensor* view_real(Tensor*);
Tensor* view_imag(Tensor*);
Tensor* view_as_real(Tensor*);
Tensor* view_as_complex(Tensor*);
Tensor* view_dtype(Tensor*, DType);
Tensor* view_alias(Tensor*);
Tensor* view_narrow(Tensor*, int64_t dim, int64_t start, int64_t length);
Tensor* view_squeeze(Tensor*, uint64_t dims, const char* name);      // a bit per dimension; those of another size than 1 stay
Tensor* view_diagonal(Tensor*, int64_t offset, int64_t dim1, int64_t dim2);
Tensor* view_unfold(Tensor*, int64_t dim, int64_t window, int64_t step);
Tensor* view_piece(Tensor*, int dim, int64_t start, int64_t stop, const char* name);      // split: arguments are known to be good
Tensor* view_element(Tensor*, int dim, int64_t index, const char* name);                  // unbind: the same

}  // namespace rl
