//! The identity of one round's owner.

use std::fmt;

use uuid::Uuid;

use crate::chance;

/// The value that a lock has on its masters: 32 hexadecimal digits with 122
/// random bits, fresh for every round (S4).
///
/// It tells owners apart. It can't order them: for that there are fencing
/// tokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(crate) fn fresh() -> Self {
        #[cfg(redquorum_break)]
        if crate::broken::is_broken("fresh-tokens") {
            return Self::stale();
        }
        Self::random()
    }

    /// The same for all rounds of this process.
    #[cfg(redquorum_break)]
    fn stale() -> Self {
        static STALE: std::sync::OnceLock<Token> = std::sync::OnceLock::new();
        *STALE.get_or_init(Self::random)
    }

    fn random() -> Self {
        let mut digits = [0; 32];
        let random = chance::identity().map(uuid::Builder::from_random_bytes);
        let uuid = random.map_or_else(Uuid::new_v4, uuid::Builder::into_uuid);
        uuid.simple().encode_lower(&mut digits);
        Self(digits)
    }

    /// For commands that need none.
    pub(crate) fn none() -> Self {
        Self([b'0'; 32])
    }

    /// The token as it is stored.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are UTF-8")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn s04_fresh_tokens_differ_in_122_bits() {
        let tokens: Vec<u128> = (0..4_096)
            .map(|_| u128::from_str_radix(Token::fresh().as_str(), 16).unwrap())
            .collect();
        assert_eq!(tokens.iter().collect::<HashSet<_>>().len(), tokens.len());

        let ever_set = tokens.iter().fold(0, |bits, token| bits | token);
        let always_set = tokens.iter().fold(u128::MAX, |bits, token| bits & token);
        assert_eq!((ever_set & !always_set).count_ones(), 122);
    }
}
