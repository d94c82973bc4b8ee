//! What many leases cost that are kept at the same time.

mod support;

use std::alloc::System;
use std::time::Duration;

use redquorum::Redlock;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use support::fleet::Fleet;
use support::wait::eventually;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What this process uses.
struct Usage {
    /// Bytes that are allocated.
    heap: f64,
    /// Bytes in memory, with what earlier peaks have left free.
    resident: f64,
    /// Seconds of CPU time so far.
    cpu: f64,
}

impl Usage {
    fn now() -> Self {
        let read = |file| std::fs::read_to_string(file).unwrap();
        let resident = read("/proc/self/statm");
        let pages: f64 = resident.split(' ').nth(1).unwrap().parse().unwrap();
        let times = read("/proc/self/stat");
        let times: Vec<_> = times.rsplit(')').next().unwrap().split(' ').collect();
        let ticks: f64 = times[12].parse::<f64>().unwrap() + times[13].parse::<f64>().unwrap();
        let heap = ALLOCATOR.stats();
        Self {
            heap: heap.bytes_allocated as f64 - heap.bytes_deallocated as f64,
            resident: pages * 4096.0,
            cpu: ticks / 100.0,
        }
    }
}

async fn connected(fleet: &Fleet) -> Redlock {
    let builder = support::builder().masters(fleet.urls());
    let redlock = builder.master_timeout(SECOND).build().unwrap();
    eventually("all masters grant", 5 * SECOND, async || {
        let lock = redlock.lock("connected").await.unwrap();
        lock.release().await.unwrap().removed == fleet.len()
    })
    .await;
    redlock
}

/// A number from the environment, or the default.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |number| number.parse().expect("a number"))
}

#[tokio::test]
#[ignore = "takes a minute: cargo test --release --test many_leases -- --ignored --nocapture"]
async fn many_leases_are_kept_and_small() {
    let count = number("REDQUORUM_LEASES", 10_000);
    let time = Duration::from_secs(number("REDQUORUM_LEASE_SECONDS", 60));
    let fleet = Fleet::start(5).await;
    let redlock = connected(&fleet).await;
    let mut leases = Vec::with_capacity(count as usize);
    let before = Usage::now();
    for number in 0..count {
        let request = redlock.lock(format!("lease:{number}")).ttl(10 * SECOND);
        leases.push(request.auto_extend().await.unwrap());
    }
    let taken = Usage::now();
    sleep(time).await;
    let after = Usage::now();
    let held = leases.iter().filter(|lease| lease.is_valid()).count();
    let each = |bytes: f64| bytes / count as f64;
    let heap = each(after.heap - before.heap);
    println!(
        "{held} of {count} leases held after {time:?}; {heap:.0} bytes each, {:.0} resident; \
         {:.1} % of a core",
        each(after.resident - before.resident),
        100.0 * (after.cpu - taken.cpu) / time.as_secs_f64(),
    );
    assert_eq!(held as u64, count);
    assert!(heap <= 2048.0, "{heap}");
}
