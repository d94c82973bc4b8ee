//! The rounds: state machines that take numbered replies and the time, and say
//! what is decided as soon as it is certain. A verdict never changes.

mod acquire;
mod extend;
mod fence;
mod release;

pub use acquire::{AcquireRound, AcquireVerdict, Refusal};
pub use extend::{ExtendRound, ExtendVerdict, LeaseLoss};
pub use fence::FenceRound;
pub use release::{ReleaseRound, ReleaseVerdict};
