//! What a client asks of a master, and the order in which it arrives.

use std::fmt;

/// One command on its way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// The round of the client that it belongs to, from 1.
    pub(crate) round: u8,
    /// The extension that it belongs to, from 1; 0 outside of extensions.
    pub(crate) extension: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Set the key if there is none.
    Take,
    /// Renew the key's TTL if its value is the token.
    Extend,
    /// Set the key again if there is none, after an extension; no vote.
    Reseed,
    /// Delete the key if its value is the token.
    Release,
    /// Raise the counter to the round's fencing token if the key's value is the
    /// token.
    Raise,
}

const KINDS: [Kind; 5] = [
    Kind::Take,
    Kind::Extend,
    Kind::Reseed,
    Kind::Release,
    Kind::Raise,
];

/// How many rounds a client may begin.
pub(crate) const MOST_ROUNDS: usize = 3;

impl Request {
    pub(crate) fn release(round: u8) -> Self {
        Self {
            kind: Kind::Release,
            round,
            extension: 0,
        }
    }

    fn pack(self) -> u8 {
        assert!(usize::from(self.round) <= MOST_ROUNDS && self.extension < 4);
        0x80 | (self.round << 5) | (self.extension << 3) | self.kind as u8
    }

    fn unpack(byte: u8) -> Self {
        Self {
            kind: KINDS[usize::from(byte & 7)],
            round: (byte >> 5) & 3,
            extension: (byte >> 3) & 3,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}.{}", self.kind, self.round, self.extension)
    }
}

/// Requests on one connection, the oldest first: up to eight, a byte each, so
/// that a state is small and quickly compared.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Queue(u64);

impl Queue {
    pub(crate) const EMPTY: Queue = Queue(0);

    pub(crate) fn len(self) -> usize {
        (u64::BITS - self.0.leading_zeros()).div_ceil(8) as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn push(&mut self, request: Request) {
        let len = self.len();
        assert!(len < 8, "a connection holds no more than eight requests");
        self.0 |= u64::from(request.pack()) << (8 * len);
    }

    pub(crate) fn first(self) -> Option<Request> {
        (!self.is_empty()).then(|| Request::unpack(self.0 as u8))
    }

    /// Takes one out; the others keep their order.
    pub(crate) fn remove(&mut self, index: usize) -> Request {
        let older = self.0 & ((1 << (8 * index)) - 1);
        let rest = self.0 >> (8 * index);
        self.0 = older | ((rest >> 8) << (8 * index));
        Request::unpack(rest as u8)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Request> {
        let bytes = self.0.to_le_bytes();
        (0..self.len()).map(move |index| Request::unpack(bytes[index]))
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
