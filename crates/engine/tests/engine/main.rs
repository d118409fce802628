//! The engine against real processes. This binary starts itself again as driver and as worker; see `kit`.

mod control;
mod faults;
mod kit;
mod sharing;
mod sweep;
mod worker;
