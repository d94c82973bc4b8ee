//! Distributed locks by the Redlock algorithm: one lock, held on a majority of
//! N independent Redis or Valkey masters.

pub mod core;

#[cfg(feature = "redis")]
mod acquire;
#[cfg(feature = "redis")]
mod claim;
#[cfg(feature = "redis")]
mod clock;
#[cfg(feature = "redis")]
mod config;
#[cfg(feature = "redis")]
mod error;
#[cfg(feature = "redis")]
mod fanout;
#[cfg(feature = "redis")]
mod guard;
#[cfg(feature = "redis")]
mod master;
#[cfg(feature = "redis")]
mod masters;
#[cfg(feature = "redis")]
mod redlock;
#[cfg(feature = "redis")]
mod release;
#[cfg(feature = "redis")]
mod report;
#[cfg(feature = "redis")]
mod request;
#[cfg(feature = "redis")]
mod settings;
#[cfg(feature = "redis")]
mod token;

#[cfg(feature = "redis")]
pub use crate::{
    config::{Builder, ConfigError},
    core::Vote,
    error::{ExtendError, InvalidRequest, LeaseTooShort, LockError, ReleaseError},
    guard::{Guard, Released},
    master::{Fault, InvalidUrl},
    redlock::Redlock,
    report::{MasterReport, RoundReport},
    request::Request,
    settings::{InvalidRetry, InvalidTime, Retry, Wait},
};

#[cfg(feature = "testing")]
pub use crate::master::MemoryMaster;
