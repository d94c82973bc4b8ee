/// Which of these servers leads for a key: all who contend for it, and know
/// each server by the same number, choose the same one. `None` if there is none.
///
/// The order in which the servers are named plays no role, and if the leader
/// goes, the keys that it led are spread over the others (rendezvous hashing).
///
/// ```
/// use redquorum::core::lead;
///
/// let mine = lead([(0, 701), (1, 702), (2, 703)], b"orders:42").unwrap();
/// let yours = lead([(0, 703), (1, 702), (2, 701)], b"orders:42").unwrap();
/// assert_eq!([701, 702, 703][mine], [703, 702, 701][yours]);
/// ```
pub fn lead(servers: impl IntoIterator<Item = (usize, u64)>, key: &[u8]) -> Option<usize> {
    let key = fold(key);
    let weighed = servers
        .into_iter()
        .map(|(master, server)| (mix(key ^ mix(server)), server, master));
    weighed.max().map(|(_, _, master)| master)
}

/// A number for a text, the same in all programs (FNV-1a).
pub(crate) fn fold(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Spreads numbers that are alike (the finalizer of splitmix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
