//! Coordinators on in-process masters.

#![allow(dead_code)] // Each test file uses some of it.

use std::time::Duration;

use redquorum::{Builder, Guard, MemoryMaster, Redlock};
use tokio::time::sleep;

pub(crate) const KEY: &str = "orders:42";

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn masters<const N: usize>() -> [MemoryMaster; N] {
    std::array::from_fn(|index| MemoryMaster::new(format!("m{}", index + 1)))
}

pub(crate) fn builder(masters: &[MemoryMaster]) -> Builder {
    Redlock::builder().memory_masters(masters)
}

pub(crate) fn redlock(masters: &[MemoryMaster]) -> Redlock {
    builder(masters).build().unwrap()
}

/// Delays each of the masters by its own time each way.
pub(crate) fn delay(masters: &[MemoryMaster], each_way: &[u64]) {
    for (master, millis) in masters.iter().zip(each_way) {
        master.delay(ms(*millis));
    }
}

/// Gives the key to somebody else, on these masters.
pub(crate) fn take_elsewhere(masters: &[MemoryMaster], ttl: Option<Duration>) {
    for master in masters {
        master.set(KEY, "other", ttl);
    }
}

/// On how many masters the key has this value.
pub(crate) fn having(masters: &[MemoryMaster], value: &str) -> usize {
    let has = |master: &&MemoryMaster| master.get(KEY).as_deref() == Some(value);
    masters.iter().filter(has).count()
}

pub(crate) fn executed(masters: &[MemoryMaster]) -> Vec<usize> {
    masters.iter().map(MemoryMaster::executed).collect()
}

/// Lets everything go on, and gives the background the time to end.
pub(crate) async fn heal(masters: &[MemoryMaster]) {
    for master in masters {
        master.lose_replies(0);
        master.lose_requests(0);
        master.delay(Duration::ZERO);
        master.reject(false);
        master.resume();
    }
    sleep(ms(200)).await;
}

#[track_caller]
pub(crate) fn assert_no_keys(masters: &[MemoryMaster]) {
    for master in masters {
        assert_eq!(master.keys(), Vec::<Vec<u8>>::new(), "left on {master:?}");
    }
}

/// The lease is not longer than the life of the keys on a quorum of masters.
#[track_caller]
pub(crate) fn assert_backed(lock: &Guard, masters: &[MemoryMaster]) {
    let remaining = lock.remaining();
    let backs = |master: &&MemoryMaster| {
        master.get(KEY).as_deref() == Some(lock.token())
            && master.expires_in(KEY) >= Some(remaining)
    };
    let backing = masters.iter().filter(backs).count();
    assert!(
        remaining.is_zero() || backing > masters.len() / 2,
        "{remaining:?} on {backing} masters"
    );
}
