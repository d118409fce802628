//! The operations of [`HydraBackend`] under automatic differentiation, with hand-written gradients.
//!
//! Each keeps its inputs and nothing else; what the gradient needs besides is computed again. Inputs that
//! need no gradient get none, and a frozen weight makes its layer keep no activation.

use std::sync::Arc;

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Tensor, TensorPrimitive};

use crate::attention::{self, Attention};
use crate::backend::HydraBackend;
use crate::logprobs;

fn primitive<B: HydraBackend, const D: usize>(tensor: Tensor<B, D>) -> FloatTensor<B> {
    tensor.into_primitive().tensor()
}

fn tensor<B: HydraBackend, const D: usize>(primitive: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}

/// Registers an operation: nodes of its inputs, what its gradient needs, its plain result.
macro_rules! record {
    ($C:ty, $op:expr, [$($input:expr),+], $state:expr, $output:expr) => {{
        let output = primitive($output);
        let output = match $op.prepare::<$C>([$($input.node.clone()),+]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish($state, output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        };
        tensor(output)
    }};
}

/// Adds a gradient to that of a parent.
fn register<B: HydraBackend, const D: usize>(
    grads: &mut Gradients,
    parent: Option<NodeId>,
    grad: impl FnOnce() -> Tensor<B, D>,
) {
    if let Some(id) = parent {
        grads.register::<B>(id, primitive(grad()));
    }
}

impl<B: HydraBackend, C: CheckpointStrategy> HydraBackend for Autodiff<B, C> {
    fn project(x: Tensor<Self, 2>, weight: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let (x, weight) = (primitive(x), primitive(weight));
        let (px, pw) = (tensor::<B, 2>(x.primitive.clone()), tensor(weight.primitive.clone()));
        let state = (weight.is_tracked().then(|| px.clone()), x.is_tracked().then(|| pw.clone()));
        record!(C, Project, [x, weight], state, B::project(px, pw))
    }

    fn rms_norm(x: Tensor<Self, 2>, weight: Tensor<Self, 2>, eps: f64) -> Tensor<Self, 2> {
        let (x, weight) = (primitive(x), primitive(weight));
        let (px, pw) = (tensor::<B, 2>(x.primitive.clone()), tensor(weight.primitive.clone()));
        let state = (px.clone(), pw.clone(), eps);
        record!(C, RmsNorm, [x, weight], state, B::rms_norm(px, pw, eps))
    }

    fn silu_mul(gate: Tensor<Self, 2>, up: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let (gate, up) = (primitive(gate), primitive(up));
        let (pg, pu) = (tensor::<B, 2>(gate.primitive.clone()), tensor(up.primitive.clone()));
        let state = (pg.clone(), pu.clone());
        record!(C, SiluMul, [gate, up], state, B::silu_mul(pg, pu))
    }

    fn causal_attention(
        q: Tensor<Self, 2>,
        k: Tensor<Self, 2>,
        v: Tensor<Self, 2>,
        at: &Arc<Attention>,
    ) -> Tensor<Self, 2> {
        let [q, k, v] = [q, k, v].map(primitive);
        let plain = [&q, &k, &v].map(|x| tensor::<B, 2>(x.primitive.clone()));
        let state = (plain.clone(), at.clone());
        let [pq, pk, pv] = plain;
        record!(C, CausalAttention, [q, k, v], state, B::causal_attention(pq, pk, pv, at))
    }

    fn target_logprobs(
        hidden: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        targets: &[u32],
        temperature: f64,
    ) -> Tensor<Self, 1> {
        let (hidden, weight) = (primitive(hidden), primitive(weight));
        let (ph, pw) = (tensor::<B, 2>(hidden.primitive.clone()), tensor(weight.primitive.clone()));
        let state = (ph.clone(), pw.clone(), targets.to_vec(), temperature);
        let output = B::target_logprobs(ph, pw, targets, temperature);
        record!(C, TargetLogprobs, [hidden, weight], state, output)
    }
}

/// `y = x · Wᵀ`: `dx = dy · W`, `dW = dyᵀ · x`.
#[derive(Debug)]
struct Project;

impl<B: HydraBackend> Backward<B, 2> for Project {
    type State = (Option<Tensor<B, 2>>, Option<Tensor<B, 2>>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad: Tensor<B, 2> = tensor(grads.consume::<B>(&ops.node));
        let [x, weight] = ops.parents.map(|parent| parent.map(|node| node.id));
        let (saved_x, saved_weight) = ops.state;
        if let Some(saved) = saved_weight {
            register(grads, x, || grad.clone().matmul(saved));
        }
        if let Some(saved) = saved_x {
            register(grads, weight, || grad.transpose().matmul(saved));
        }
    }
}

#[derive(Debug)]
struct RmsNorm;

impl<B: HydraBackend> Backward<B, 2> for RmsNorm {
    type State = (Tensor<B, 2>, Tensor<B, 2>, f64);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = tensor(grads.consume::<B>(&ops.node));
        let [x, weight] = ops.parents.map(|parent| parent.map(|node| node.id));
        let (saved_x, saved_weight, eps) = ops.state;
        let (dx, dw) = B::rms_norm_backward(saved_x, saved_weight, eps, grad, weight.is_some());
        register(grads, x, || dx);
        if let Some(dw) = dw {
            register(grads, weight, || dw);
        }
    }
}

#[derive(Debug)]
struct SiluMul;

impl<B: HydraBackend> Backward<B, 2> for SiluMul {
    type State = (Tensor<B, 2>, Tensor<B, 2>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = tensor(grads.consume::<B>(&ops.node));
        let [gate, up] = ops.parents.map(|parent| parent.map(|node| node.id));
        let (dgate, dup) = B::silu_mul_backward(ops.state.0, ops.state.1, grad);
        register(grads, gate, || dgate);
        register(grads, up, || dup);
    }
}

#[derive(Debug)]
struct CausalAttention;

impl<B: HydraBackend> Backward<B, 3> for CausalAttention {
    type State = ([Tensor<B, 2>; 3], Arc<Attention>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = tensor(grads.consume::<B>(&ops.node));
        let ([q, k, v], at) = ops.state;
        let found = attention::backward(q, k, v, &at, grad);
        for (parent, grad) in ops.parents.into_iter().zip(found) {
            register(grads, parent.map(|node| node.id), || grad);
        }
    }
}

#[derive(Debug)]
struct TargetLogprobs;

impl<B: HydraBackend> Backward<B, 2> for TargetLogprobs {
    type State = (Tensor<B, 2>, Tensor<B, 2>, Vec<u32>, f64);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = tensor(grads.consume::<B>(&ops.node));
        let [hidden, weight] = ops.parents.map(|parent| parent.map(|node| node.id));
        let (saved, head, targets, temperature) = ops.state;
        let want = weight.is_some();
        let (dh, dw) = logprobs::backward(saved, head, &targets, temperature, grad, want);
        register(grads, hidden, || dh);
        if let Some(dw) = dw {
            register(grads, weight, || dw);
        }
    }
}
