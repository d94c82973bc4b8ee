//! What the tests stand on: real servers, a proxy that breaks connections, and waiting.
//!
//! Test files say `mod support;`, examples and benches
//! `#[path = "../tests/support/mod.rs"] mod support;`. Each uses a part of it.

#![allow(dead_code, unreachable_pub)]

pub mod compose;
pub mod fleet;
pub mod inspect;
pub mod machine;
pub mod masters;
pub mod proxy;
pub mod resp;
pub mod server;
pub mod wait;
