//! AdamW (I. Loshchilov and F. Hutter, arXiv 1711.05101) with PyTorch's placement of ε.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use model::{HydraBackend, Parameters};

use super::Gradients;

/// The constants of AdamW.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWConfig {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to √v̂, outside the root.
    pub epsilon: f64,
    /// Decoupled decay; norms are left out, as the Hugging Face trainer does.
    pub weight_decay: f64,
}

/// First and second moment of a parameter.
type Moments<B> = (Tensor<B, 2>, Tensor<B, 2>);

/// The optimiser's state: moments by parameter name, made when a parameter first has a gradient.
#[derive(Debug, Clone)]
pub struct AdamW<B: HydraBackend> {
    config: AdamWConfig,
    step: u64,
    moments: BTreeMap<String, Moments<B>>,
}

impl<B: HydraBackend> AdamW<B> {
    /// An optimiser that has not stepped yet.
    pub fn new(config: AdamWConfig) -> Self {
        Self { config, step: 0, moments: BTreeMap::new() }
    }

    /// One step at rate `learning_rate`. Parameters without a gradient stay as they are.
    pub fn step<P>(&mut self, params: &P, gradients: &Gradients<B>, learning_rate: f64) -> P
    where
        P: Parameters<B, On<B> = P>,
    {
        self.step += 1;
        params.map(&mut |name, parameter| match gradients.get(name) {
            Some(gradient) => self.update(name, parameter, gradient, learning_rate),
            None => parameter.clone(),
        })
    }

    /// θ ← θ − lr·wd·θ − lr · m̂ / (√v̂ + ε)
    fn update(
        &mut self,
        name: &str,
        parameter: &Tensor<B, 2>,
        gradient: &Tensor<B, 2>,
        learning_rate: f64,
    ) -> Tensor<B, 2> {
        let AdamWConfig { beta1, beta2, epsilon, weight_decay } = self.config;
        let (m, v) = self.moments.remove(name).unwrap_or_else(|| {
            let zeros = Tensor::zeros(gradient.dims(), &gradient.device());
            (zeros.clone(), zeros)
        });
        let m = m * beta1 + gradient.clone() * (1.0 - beta1);
        let v = v * beta2 + gradient.clone() * gradient.clone() * (1.0 - beta2);
        let step = self.step as f64;
        let (correction1, correction2) = (1.0 - beta1.powf(step), 1.0 - beta2.powf(step));
        let direction = m.clone() / ((v.clone() / correction2).sqrt() + epsilon);
        self.moments.insert(name.to_owned(), (m, v));
        let decay = if name.ends_with("norm.weight") { 0.0 } else { learning_rate * weight_decay };
        parameter.clone() * (1.0 - decay) - direction * (learning_rate / correction1)
    }

    /// Everything needed to go on: the number of steps, and the moments as `m.NAME` and `v.NAME`.
    pub fn state(&self) -> (u64, BTreeMap<String, Tensor<B, 2>>) {
        let mut tensors = BTreeMap::new();
        for (name, (m, v)) in &self.moments {
            tensors.insert(format!("m.{name}"), m.clone());
            tensors.insert(format!("v.{name}"), v.clone());
        }
        (self.step, tensors)
    }

    /// Takes up what [`AdamW::state`] gave; moments are taken out of `tensors`.
    pub fn restore(&mut self, step: u64, tensors: &mut BTreeMap<String, Tensor<B, 2>>) {
        self.step = step;
        let names: Vec<String> =
            tensors.keys().filter_map(|n| n.strip_prefix("m.")).map(String::from).collect();
        for name in names {
            if let (Some(m), Some(v)) =
                (tensors.remove(&format!("m.{name}")), tensors.remove(&format!("v.{name}")))
            {
                self.moments.insert(name, (m, v));
            }
        }
    }
}
