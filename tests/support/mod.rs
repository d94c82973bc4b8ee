//! What the tests stand on: real servers, a proxy that breaks connections, and waiting.
//!
//! Test files say `mod support;`, examples and benches
//! `#[path = "../tests/support/mod.rs"] mod support;`. Each uses a part of it.

#![allow(dead_code, unreachable_pub)]

pub mod compose;
pub mod crowd;
pub mod fleet;
pub mod inspect;
pub mod machine;
pub mod masters;
pub mod proxy;
pub mod resp;
pub mod server;
pub mod wait;

/// A builder for masters that have only just been started, as those of tests are, and on which
/// nobody held a lock before: without the quarantine, they vote at once. (`tests/admission.rs` has
/// it on.)
pub fn builder() -> redquorum::Builder {
    redquorum::Redlock::builder().restart_quarantine(false)
}
