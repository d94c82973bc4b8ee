//! Distributed locks by the Redlock algorithm.

pub mod core;
