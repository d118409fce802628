//! Whole-command tests.
