//! Whole training runs of a tiny model: exact resume, invariance to how the work is cut, PPO's guards.

mod common;
mod invariance;
mod ppo;
mod resume;
