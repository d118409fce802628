//! Named parameters: what the optimiser, checkpoints, hashing and files see of a model.

use std::collections::BTreeMap;

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;

use crate::backend::HydraBackend;

/// A model as a list of named matrices, always in the same order.
///
/// Every parameter is a rank-2 tensor: a linear layer's weight is `[out, in]` as on disk, and the vector
/// of a norm is `[1, hidden]` (on disk `[hidden]`). Names are those of the files.
pub trait Parameters<B: HydraBackend>: Sized {
    /// The same model on another backend.
    type On<C: HydraBackend>: Parameters<C>;

    /// Calls `f` with the name and the tensor of every parameter.
    fn visit<'a>(&'a self, f: &mut dyn FnMut(&str, &'a Tensor<B, 2>));

    /// The same model with every parameter replaced by what `f` makes of it, on any backend.
    fn map<C: HydraBackend>(&self, f: &mut dyn FnMut(&str, &Tensor<B, 2>) -> Tensor<C, 2>) -> Self::On<C>;

    /// A copy for one training step: it shares the storage, and those parameters that `trainable` says
    /// are leaves of the graph. The others keep no activation and get no gradient.
    fn tracked(&self, trainable: impl Fn(&str) -> bool) -> Self::On<Autodiff<B>> {
        self.map(&mut |name, tensor| {
            let leaf = Tensor::from_inner(tensor.clone());
            if trainable(name) { leaf.require_grad() } else { leaf }
        })
    }

    /// A copy on the autodiff backend without any trainable parameter.
    fn frozen(&self) -> Self::On<Autodiff<B>> {
        self.tracked(|_| false)
    }

    /// Names of the parameters in order.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.visit(&mut |name, _| names.push(name.to_owned()));
        names
    }

    /// Number of scalars.
    fn count(&self) -> usize {
        let mut count = 0;
        self.visit(&mut |_, tensor| count += tensor.dims().iter().product::<usize>());
        count
    }

    /// BLAKE3 over names, shapes and little-endian f32 values, in hexadecimal.
    fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        self.visit(&mut |name, tensor| {
            let [rows, cols] = tensor.dims();
            hasher.update(format!("{name}\0{rows}\0{cols}\0").as_bytes());
            hasher.update(&crate::weights::le_bytes(tensor));
        });
        hasher.finalize().to_hex().to_string()
    }
}

/// The gradients of a tracked model's trainable parameters by name, taken out of `grads`.
///
/// A trainable parameter that did not take part in the loss is not in the map.
pub fn gradients<A, P>(params: &P, grads: &mut A::Gradients) -> BTreeMap<String, Tensor<A::InnerBackend, 2>>
where
    A: HydraBackend + AutodiffBackend,
    P: Parameters<A>,
{
    let mut found = BTreeMap::new();
    params.visit(&mut |name, tensor| {
        if tensor.is_require_grad()
            && let Some(gradient) = tensor.grad_remove(grads)
        {
            found.insert(name.to_owned(), gradient);
        }
    });
    found
}
