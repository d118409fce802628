//! The engine against real processes. This binary starts itself again as driver and as worker; see `kit`.

mod control;
mod faults;
mod kit;
mod points;
mod sharing;
mod slurm_faults;
mod slurm_jobs;
mod slurm_kit;
mod sweep;
mod unharmed;
mod worker;
