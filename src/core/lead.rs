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

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients of different versions have to agree, so these never change.
    #[test]
    fn the_choice_is_the_same_in_all_programs() {
        assert_eq!(fold(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fold(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fold(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(mix(0), 0);
        assert_eq!(mix(1), 0x5692_161d_100b_05e5);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
        let servers = [(0, 10), (1, 20), (2, 30)];
        let leads = ["a", "b", "c", "d", "e", "f"].map(|key| lead(servers, key.as_bytes()));
        assert_eq!(leads, LEADS.map(Some));
    }

    const LEADS: [usize; 6] = [0, 0, 2, 0, 2, 1];

    #[test]
    fn keys_are_spread_and_move_only_if_their_lead_goes() {
        let servers: Vec<(usize, u64)> = (0..5).map(|n| (n, fold(&[n as u8]))).collect();
        let mut led = [0; 5];
        for number in 0..10_000_u32 {
            let key = number.to_be_bytes();
            let first = lead(servers.iter().copied(), &key).unwrap();
            led[first] += 1;
            let others = servers.iter().copied().filter(|(master, _)| *master != 4);
            let second = lead(others, &key).unwrap();
            assert!(second == first || first == 4);
        }
        assert!(
            led.iter().all(|count| (1_800..2_200).contains(count)),
            "{led:?}"
        );
    }

    #[test]
    fn without_servers_there_is_no_lead() {
        assert_eq!(lead([], b"a"), None);
    }
}
