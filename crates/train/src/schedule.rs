//! The learning rate over a run.

use spec::stage::LrScheduler;

/// A multiplier of the learning rate for each optimiser step.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    kind: LrScheduler,
    warmup: u64,
    total: u64,
}

impl Schedule {
    /// A schedule of `total` steps whose first `warmup` ones rise.
    pub fn new(kind: LrScheduler, warmup: u64, total: u64) -> Self {
        Self { kind, warmup, total }
    }

    /// The multiplier of step `step`, from 0.
    ///
    /// Warm-up rises linearly over 1/(w+1), 2/(w+1), … and reaches 1 at step w, so that no step is done at
    /// rate 0; from there `linear` and `cosine` fall to 0, which the step after the last would have.
    pub fn factor(&self, step: u64) -> f64 {
        if step < self.warmup {
            return (step + 1) as f64 / (self.warmup + 1) as f64;
        }
        let span = self.total.saturating_sub(self.warmup).max(1);
        let progress = ((step - self.warmup) as f64 / span as f64).min(1.0);
        match self.kind {
            LrScheduler::Constant => 1.0,
            LrScheduler::Linear => 1.0 - progress,
            LrScheduler::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_rate_and_the_peak_comes_after_the_warm_up() {
        for kind in [LrScheduler::Constant, LrScheduler::Linear, LrScheduler::Cosine] {
            let schedule = Schedule::new(kind, 3, 10);
            let factors: Vec<f64> = (0..10).map(|step| schedule.factor(step)).collect();
            assert_eq!(factors[..4], [0.25, 0.5, 0.75, 1.0]);
            assert!(factors.iter().all(|factor| *factor > 0.0));
            assert!(factors[3..].windows(2).all(|pair| pair[1] <= pair[0]));
        }
    }

    #[test]
    fn halfway_down() {
        assert!((Schedule::new(LrScheduler::Cosine, 0, 10).factor(5) - 0.5).abs() < 1e-12);
        assert!((Schedule::new(LrScheduler::Linear, 2, 10).factor(6) - 0.5).abs() < 1e-12);
        assert_eq!(Schedule::new(LrScheduler::Linear, 0, 10).factor(10), 0.0);
        assert_eq!(Schedule::new(LrScheduler::Linear, 20, 10).factor(9), 10.0 / 21.0);
    }
}
