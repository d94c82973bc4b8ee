/// The key of something that belongs to a lock, beside the lock's own: both have
/// the same hash tag, so that a cluster keeps them on one node and a script may
/// use both.
///
/// <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags>
///
/// A key with a `}` and no tag of its own can't be the tag of another: what
/// belongs to it is on another node, and a cluster refuses the script.
///
/// ```
/// use redquorum::core::helper_key;
///
/// assert_eq!(helper_key(b"orders:42", "fence"), b"{orders:42}:fence");
/// assert_eq!(helper_key(b"{orders}:42", "fence"), b"{orders}:42:fence");
/// ```
pub fn helper_key(lock: &[u8], name: &str) -> Vec<u8> {
    let (open, close): (&[u8], &[u8]) = match has_hash_tag(lock) {
        true => (b"", b":"),
        false => (b"{", b"}:"),
    };
    [open, lock, close, name.as_bytes()].concat()
}

/// Whether there is something between the first `{` and the next `}`.
fn has_hash_tag(key: &[u8]) -> bool {
    let after = key.iter().position(|byte| *byte == b'{').map(|at| at + 1);
    after.is_some_and(|after| {
        let close = key[after..].iter().position(|byte| *byte == b'}');
        close.is_some_and(|length| length > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_server_takes_for_a_tag_is_one() {
        for tagged in ["{a}", "x{a}y", "{a}{b}", "{{a}", "a{b}}"] {
            let helper = [tagged.as_bytes(), b":h"].concat();
            assert_eq!(helper_key(tagged.as_bytes(), "h"), helper);
        }
        for plain in ["a", "{a", "a}", "{}", "{}{a}", "}{"] {
            let helper = [b"{", plain.as_bytes(), b"}:h"].concat();
            assert_eq!(helper_key(plain.as_bytes(), "h"), helper);
        }
    }
}
