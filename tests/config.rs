//! What can be configured and asked for, and what is refused (S1, S15).
#![cfg(feature = "testing")]

mod memory;

use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use memory::*;
use redquorum::core::InvalidQuorum;
use redquorum::{
    Builder, ConfigError, InvalidRequest, InvalidRetry, InvalidTime, LockError, MemoryMaster,
    Redlock, Retry,
};

fn three() -> Builder {
    builder(&masters::<3>())
}

#[track_caller]
fn refused(builder: Builder) -> ConfigError {
    builder.build().expect_err("it can't be used")
}

#[test]
fn in_process_masters_are_not_mixed_with_real_ones() {
    let mixed = three().masters(["redis://127.0.0.1:1", "redis://127.0.0.1:2"]);
    assert_eq!(refused(mixed), ConfigError::MixedMasters);
}

#[test]
fn s01_there_must_be_masters_but_not_too_many() {
    let none = refused(Redlock::builder());
    assert_eq!(none, ConfigError::Quorum(InvalidQuorum::NoMasters));
    let most: [_; 64] = masters();
    assert!(builder(&most).build().is_ok());
    let too_many: [_; 65] = masters();
    let masters = 65;
    assert_eq!(
        refused(builder(&too_many)),
        ConfigError::Quorum(InvalidQuorum::TooManyMasters { masters })
    );
}

#[test]
fn s01_a_quorum_is_more_than_half_and_no_more_than_all() {
    for (count, smallest) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
        let all: [_; 5] = masters();
        let all = &all[..count];
        for needed in 0..=6 {
            let built = builder(all).quorum(needed).build();
            match built {
                Ok(_) => assert!(needed >= smallest && needed <= count),
                Err(error) => {
                    assert!(needed < smallest || needed > count, "{error}");
                    let says = format!("the smallest that is safe is {smallest}");
                    assert!(error.to_string().contains(&says), "{error}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s01_the_default_quorum_of_four_masters_is_three() {
    let masters = masters::<4>();
    take_elsewhere(&masters[..1], None);
    let redlock = redlock(&masters);
    assert_eq!(redlock.lock(KEY).try_once().await.unwrap().granted(), 3);
    take_elsewhere(&masters[..2], None);
    assert!(redlock.lock(KEY).try_once().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn s01_a_larger_quorum_is_kept_to() {
    let masters = masters::<5>();
    let redlock = builder(&masters).quorum(4).build().unwrap();
    take_elsewhere(&masters[..1], None);
    assert!(redlock.lock(KEY).try_once().await.is_ok());
    take_elsewhere(&masters[..2], None);
    assert!(redlock.lock(KEY).try_once().await.is_err());
}

#[test]
fn s14_a_master_given_twice_is_refused_and_named() {
    for twice in [
        ["redis://localhost", "redis://localhost"],
        ["redis://localhost", "redis://localhost:6379/"],
        [
            "redis://user:hunter2@redis-1:7000",
            "redis://redis-1:7000/3",
        ],
        ["redis://Redis-1:7000", "redis://redis-1:7000"],
    ] {
        let error = refused(Redlock::builder().masters(twice));
        assert!(
            matches!(error, ConfigError::DuplicateMaster { .. }),
            "{error}"
        );
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let master = MemoryMaster::new("m1");
    let error = refused(builder(&[master.clone(), master]));
    assert!(error.to_string().contains("m1"), "{error}");
}

#[test]
fn a_url_that_does_not_parse_is_refused_and_named_without_its_password() {
    for (url, named) in [
        ("http://redis-1:6379", "redis-1"),
        ("redis://user:hunter2@redis-1:70000", "redis-1"),
        ("redis://user:hunter2@redis-1:port", "redis-1"),
        ("redis://user:hunter2@redis-1/notadb", "redis-1"),
        ("redis-1", "redis-1"),
        ("redis://", "redis://"),
        ("", ""),
    ] {
        let masters = ["redis://localhost", url, "redis://localhost:1"];
        let error = refused(Redlock::builder().masters(masters));
        assert!(matches!(error, ConfigError::Url(_)), "{error}");
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(text.contains(named), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

#[test]
fn nothing_shows_a_password() {
    let builder = Redlock::builder().masters(["redis://user:hunter2@redis-1"]);
    assert!(!format!("{builder:?}").contains("hunter2"), "{builder:?}");
    let redlock = builder.build().unwrap();
    assert!(!format!("{redlock:?}").contains("hunter2"), "{redlock:?}");
    assert!(redlock.addresses().eq(["redis-1:6379"]));
}

#[test]
fn s15_a_default_ttl_that_cannot_be_had_is_refused() {
    let too_long = Duration::from_millis(i64::MAX as u64 / 2 + 1);
    for ttl in [
        Duration::ZERO,
        Duration::from_micros(999),
        too_long,
        Duration::MAX,
    ] {
        let error = refused(three().ttl(ttl));
        assert!(
            matches!(error, ConfigError::Ttl(InvalidTime::Ttl(_))),
            "{error}"
        );
    }
    for builder in [
        three().ttl(ms(2)),
        three().drift_floor(Duration::from_secs(10)),
        three().drift_floor(Duration::MAX),
        three().drift_factor(0.9).ttl(ms(20)),
        three().min_validity(Duration::from_secs(10)),
        three().min_validity(Duration::MAX),
    ] {
        let error = refused(builder);
        assert!(
            matches!(error, ConfigError::Ttl(InvalidTime::Validity(_))),
            "{error}"
        );
    }
}

#[test]
fn a_drift_that_is_not_a_share_is_refused() {
    for factor in [-0.01, 1.0, 2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = refused(three().drift_factor(factor));
        assert!(matches!(error, ConfigError::Drift(_)), "{error}");
    }
    assert!(three().drift_factor(0.0).build().is_ok());
    assert!(three().drift_factor(0.99).build().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_retry_policy_that_would_spin_or_do_nothing_is_refused() {
    let retries = [
        Retry::default().base(Duration::ZERO),
        Retry::default().cap(Duration::ZERO),
        Retry::default().base(ms(10)).cap(ms(9)),
        Retry::default().attempts(0),
    ];
    let masters = masters::<3>();
    for retry in retries {
        let error = refused(builder(&masters).retry(retry));
        assert!(matches!(error, ConfigError::Retry(_)), "{error}");
        let error = redlock(&masters).lock(KEY).retry(retry).await.unwrap_err();
        assert!(
            matches!(error, LockError::Invalid(InvalidRequest::Retry(_))),
            "{error}"
        );
    }
    assert_eq!(
        refused(three().retry(retries[3])),
        ConfigError::Retry(InvalidRetry::NoAttempts)
    );
    assert_eq!(executed(&masters), [0; 3], "nothing was sent");
}

#[test]
fn time_outs_that_healthy_masters_would_fail_are_refused() {
    for short in [Duration::ZERO, ms(9), Duration::from_micros(9_999)] {
        for builder in [
            three().master_timeout(short),
            three().connect_timeout(short),
        ] {
            let error = refused(builder);
            assert!(
                matches!(error, ConfigError::TimeoutTooShort { .. }),
                "{error}"
            );
        }
    }
    let builder = three().master_timeout(ms(10)).connect_timeout(ms(10));
    assert!(builder.build().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_longest_times_work() {
    let masters = masters::<3>();
    let redlock = builder(&masters)
        .master_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX)
        .wait(Duration::MAX)
        .retry(Retry::default().base(Duration::MAX).cap(Duration::MAX))
        .build()
        .unwrap();
    let longest = Duration::from_millis(i64::MAX as u64 / 2);
    let lock = redlock.lock(KEY).ttl(longest).await.unwrap();
    assert!(lock.extend(longest).await.is_ok());
    assert!(redlock.lock(KEY).try_once().await.is_err());
    masters[0].cut_off();
    lock.release().await.unwrap();
    masters[0].restart();
    assert_no_keys(&masters);
}

#[test]
fn building_needs_neither_masters_nor_a_runtime() {
    let urls = [
        "redis://127.0.0.1:1",
        "redis://192.0.2.1",
        "redis://[::1]:1",
    ];
    let redlock = Redlock::builder().masters(urls).build().unwrap();
    drop(redlock.clone());
    assert_eq!(redlock.addresses().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_empty_resource_is_refused() {
    let masters = masters::<3>();
    for builder in [builder(&masters), builder(&masters).key_prefix("lock:")] {
        let refused = builder.build().unwrap().lock("").await.unwrap_err();
        assert!(
            matches!(refused, LockError::Invalid(InvalidRequest::EmptyResource)),
            "{refused}"
        );
    }
    assert_eq!(executed(&masters), [0; 3], "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn any_other_bytes_are_a_resource() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    let resources: [&[u8]; 6] = [
        &[b'x'; 1 << 20],
        b"\0",
        b"nul\0in\0between",
        b"{braces}}{",
        b"\xff\xfe not UTF-8",
        b" \r\n",
    ];
    let mut locks = Vec::new();
    for resource in resources {
        let lock = redlock.lock(resource).try_once().await.unwrap();
        assert_eq!(lock.resource(), resource);
        assert_eq!(masters[1].get(resource).as_deref(), Some(lock.token()));
        assert!(redlock.lock(resource).try_once().await.is_err());
        locks.push(lock);
    }
    for lock in locks {
        assert_eq!(lock.release().await.unwrap().removed, 3);
    }
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn the_prefix_goes_before_the_resource_and_separates() {
    let masters = masters::<3>();
    let a = builder(&masters).key_prefix("a:").build().unwrap();
    let b = builder(&masters).key_prefix("b:").build().unwrap();
    let lock = a.lock("x").try_once().await.unwrap();
    assert_eq!(lock.resource(), b"x");
    assert_eq!(masters[0].get("a:x").as_deref(), Some(lock.token()));
    assert!(b.lock("x").try_once().await.is_ok());
}

/// Polls a future once, outside of any runtime.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn outside_of_a_runtime_there_is_an_error_and_no_panic() {
    let masters = masters::<3>();
    let memory = redlock(&masters);
    let urls = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"];
    let redis = Redlock::builder().masters(urls).build().unwrap();
    for redlock in [memory, redis] {
        let mut request = redlock.lock(KEY).into_future();
        let Poll::Ready(Err(LockError::NoRuntime)) = poll(&mut request) else {
            panic!("there is no runtime");
        };
    }
    assert_eq!(executed(&masters), [0; 3], "nothing was sent");
}
