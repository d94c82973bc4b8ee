//! One client: at most one round, lock, extension or release at a time.

use super::count::Count;
use super::request::MOST_ROUNDS;

/// Times are in ticks. They are kept as distances from now, since an origin of
/// time means nothing: states that differ in it alone are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// The rounds that it has begun.
    pub(crate) round: u8,
    /// The extensions that it has begun.
    pub(crate) extension: u8,
    /// The fencing tokens that masters are being asked to raise their counters to,
    /// by round.
    pub(crate) fences: [Option<Count>; MOST_ROUNDS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It has nothing, and wants nothing yet.
    #[default]
    Idle,
    /// A round began this long ago.
    Taking { elapsed: u8 },
    /// A round that began this long ago was granted, and a quorum must know its
    /// fencing token.
    Fencing { elapsed: u8 },
    /// A round was won. `reseeding`: an extension was renewed, and masters that
    /// lost the key may be given it back.
    Held { left: u8, reseeding: bool },
    /// An extension began this long ago.
    Extending { left: u8, elapsed: u8 },
    /// The owner released a lock, and waits for the confirmation. Nothing relies
    /// on what would be left of it.
    Releasing { left: u8 },
}

/// No counter is being raised.
pub(crate) const NO_FENCES: [Option<Count>; MOST_ROUNDS] = [None; MOST_ROUNDS];

impl Client {
    /// How long it may rely on its lock.
    pub(crate) fn validity(&self) -> u8 {
        match self.phase {
            Phase::Held { left, .. } | Phase::Extending { left, .. } => left,
            _ => 0,
        }
    }

    /// Whether its token, on whatever master, is its own to look after: it will
    /// release it before it begins anew.
    pub(crate) fn cares(&self) -> bool {
        match self.phase {
            Phase::Idle | Phase::Releasing { .. } => false,
            Phase::Taking { .. }
            | Phase::Fencing { .. }
            | Phase::Held { .. }
            | Phase::Extending { .. } => true,
        }
    }

    /// Whether it may yet be granted a lock.
    pub(crate) fn may_win(&self, rounds: u8) -> bool {
        let asks = matches!(self.phase, Phase::Taking { .. } | Phase::Fencing { .. });
        asks || self.round < rounds
    }

    /// The fencing token of a round.
    pub(crate) fn fence(&self, round: u8) -> Option<Count> {
        self.fences[usize::from(round) - 1]
    }

    pub(crate) fn set_fence(&mut self, round: u8, token: Count) {
        self.fences[usize::from(round) - 1] = Some(token);
    }

    pub(crate) fn forget_fence(&mut self, round: u8) {
        self.fences[usize::from(round) - 1] = None;
    }

    /// The rounds whose fencing tokens are kept.
    pub(crate) fn fenced_rounds(&self) -> impl Iterator<Item = u8> + use<> {
        let fences = self.fences;
        let rounds = if fences == NO_FENCES {
            0
        } else {
            MOST_ROUNDS as u8
        };
        (1..=rounds).filter(move |round| fences[usize::from(*round) - 1].is_some())
    }

    /// A tick. Elapsed time stops at `enough`, when nothing can be won any more.
    pub(crate) fn tick(&mut self, enough: u8) {
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Taking { elapsed } | Phase::Fencing { elapsed } => {
                *elapsed = enough.min(*elapsed + 1);
            }
            Phase::Held { left, .. } | Phase::Releasing { left } => {
                *left = left.saturating_sub(1);
            }
            Phase::Extending { left, elapsed } => {
                *left = left.saturating_sub(1);
                *elapsed = enough.min(*elapsed + 1);
            }
        }
    }
}
