//! The pure core by itself: what each decision costs, in nanoseconds.
//!
//! `make bench-core`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use redquorum::core::{
    AcquireRound, AcquireVerdict, Backoff, Drift, ExtendRound, FenceRound, Moment, Quorum,
    ReleaseRound, Terms, Ttl, Vote, lead,
};

const MASTERS: usize = 5;
const STARTED: Moment = Moment::from_origin(Duration::from_secs(1));

/// A millisecond after the round began.
fn now() -> Moment {
    STARTED.after(Duration::from_millis(1))
}

fn quorum() -> Quorum {
    Quorum::majority(MASTERS).expect("five masters")
}

fn terms() -> Terms {
    let ttl = Ttl::new(Duration::from_secs(10)).expect("ten seconds");
    let drift = Drift::new(0.01, Duration::from_millis(2)).expect("the usual drift");
    Terms::new(ttl, drift, Duration::from_millis(1)).expect("the usual terms")
}

/// All masters say yes.
fn acquire() -> AcquireVerdict {
    let mut round = AcquireRound::new(quorum(), black_box(terms()), STARTED);
    for master in 0..MASTERS {
        round.vote(black_box(master), Vote::Yes, now());
    }
    round.verdict()
}

fn rounds(c: &mut Criterion) {
    c.bench_function("acquire round, five votes", |b| b.iter(acquire));
    let AcquireVerdict::Won(lease) = acquire() else {
        panic!("all said yes");
    };
    c.bench_function("extend round, five votes", |b| {
        b.iter(|| {
            let mut round = ExtendRound::new(quorum(), black_box(terms()), STARTED, lease);
            for master in 0..MASTERS {
                round.vote(black_box(master), Vote::Yes, now());
            }
            round.verdict()
        });
    });
    c.bench_function("release round, five votes", |b| {
        b.iter(|| {
            let mut round = ReleaseRound::new(quorum());
            for master in 0..MASTERS {
                round.vote(black_box(master), Vote::Yes);
            }
            round.verdict()
        });
    });
    // One counter is ahead: four are raised.
    let counts = [(0, 7), (1, 7), (2, 9), (3, 7), (4, 7)];
    c.bench_function("fence round, counters apart", |b| {
        b.iter(|| {
            let counts = black_box(&counts);
            let round = FenceRound::new(quorum(), terms(), STARTED, counts, now());
            let mut round = round.expect("there are counts");
            for master in [0, 1, 3, 4] {
                round.vote(black_box(master), Vote::Yes, now());
            }
            round.verdict()
        });
    });
}

fn waiting(c: &mut Criterion) {
    let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    let backoff = backoff.expect("a pause that grows");
    c.bench_function("backoff", |b| {
        b.iter(|| backoff.delay(black_box(3), black_box(0x9e37_79b9_7f4a_7c15)));
    });
    c.bench_function("lead of five", |b| {
        b.iter(|| {
            let servers = (0..MASTERS).map(|master| (master, black_box(master as u64) << 32));
            lead(servers, black_box(b"stock:7"))
        });
    });
}

criterion_group!(benches, rounds, waiting);
criterion_main!(benches);
