//! What is worth seeing on the way: an exploration that never comes by shows
//! nothing.

use super::protocol::Protocol;
use super::world::World;

macro_rules! events {
    ($($event:ident: $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Event { $($event,)* }

        impl Event {
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$event => $name,)* }
            }

            /// Whether a step from this state shows it.
            pub(crate) fn condition<const N: usize>(self) -> fn(&Protocol<N>, &World<N>) -> bool {
                match self {
                    $(Self::$event => |protocol, world| protocol.shows(world, Self::$event),)*
                }
            }
        }
    };
}

events! {
    GrantedA: "A is granted the lock",
    GrantedB: "B is granted the lock",
    RefusedEarly: "a round is refused before all have answered",
    RefusedTooLate: "a quorum grants too late",
    TimedOut: "a round times out",
    Abandoned: "a round is abandoned",
    LateGrantReleased: "a master grants after the refusal",
    LateGrantKept: "a master grants after the win",
    Renewed: "an extension is renewed",
    ExtensionGone: "an extension finds the lease gone",
    ExtensionExpired: "an extension finds the lease expired",
    ExtensionUnknown: "an extension stays unknown",
    Reseeded: "a master is given the key back",
    QuarantineRefused: "the quarantine refuses a vote",
    StrayExecuted: "a request of a lost connection is executed",
    KilledTake: "a taking request is killed with its connection",
    ReleaseRepeated: "a release is sent again over a new connection",
    Released: "a release is confirmed",
    NotHeld: "a release says that the lock was not held",
    ReleaseUnconfirmed: "a release stays unconfirmed",
    SecondRound: "counters are raised in a second round",
    SecondRoundLost: "a second round is lost",
    LateGrantFenced: "a master grants in the second round",
    CounterExpired: "a counter expires",
    OldNotCounted: "a master doesn't count on from an older counter",
    OldNotRaised: "a master doesn't raise an older counter",
    ExpiredEarly: "a key expires early, by a jump of the clock",
}

/// What one step shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Events(u32);

impl Events {
    pub(crate) fn add(&mut self, event: Event) {
        self.0 |= 1 << event as u32;
    }

    pub(crate) fn has(self, event: Event) -> bool {
        self.0 & (1 << event as u32) != 0
    }
}
