//! A model of the protocol, explored exhaustively by stateright: every order of
//! messages, ticks, decisions and faults within a setting's bounds.
//!
//! The clients decide by the library's own core: `driver.rs` does what the
//! library's driver does around it. Masters, connections and time are modelled.
//!
//! | file | noun |
//! |---|---|
//! | `setting.rs` | the bounds of an exploration, and how the protocol is broken |
//! | `world.rs`, `master.rs`, `link.rs`, `request.rs`, `client.rs`, `count.rs` | a state and its parts |
//! | `protocol.rs`, `step.rs` | what can happen next, and one such step |
//! | `driver.rs`, `fencing.rs`, `ballot.rs` | what clients do, and the core's rounds in it |
//! | `fault.rs` | what masters and connections do |
//! | `promise.rs`, `event.rs` | what always holds, and what sometimes happens |
//! | `exploration.rs` | runs the checker, and says what it found |
//! | `holds.rs`, `mutations.rs`, `deep.rs` | the tests: what holds, what must not, more by command |
//! | `fenced.rs` | all of these for fencing tokens |
//! | `sound.rs` | the ways of saving states, held against doing without |
//!
//! What is in the state, and what is not:
//!
//! - Time is in whole ticks, and unbounded: states keep distances from now alone,
//!   so that those which differ in the date are one.
//! - Requests travel in order on one connection, and are delayed without bound;
//!   so are answers. A loss is the loss of a connection: what it carried is lost
//!   with it, or goes astray and is still executed, whenever it likes.
//! - A crash is amnesia: the master is up again at once, since being away is no
//!   more than delay.
//! - Time-outs have no length: a client stops waiting whenever it likes.
//! - An answer that nobody waits for changes nothing, so it is not on its way.
//! - Nothing follows a broken promise.

mod ballot;
mod client;
mod count;
mod deep;
mod driver;
mod event;
mod exploration;
mod fault;
mod fenced;
mod fencing;
mod holds;
mod link;
mod master;
mod mutations;
mod promise;
mod protocol;
mod request;
mod setting;
mod sound;
mod step;
mod world;
