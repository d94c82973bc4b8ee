//! Taking a fenced lock.

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::counter::{Fields, counter, counting, fields, set_counter, take};
use super::support::server::Server;
use super::{an_error, each_part_is_needed, fresh, lives_for, no_count, run, text};

const TAKE_FENCED: &str = include_str!("../../src/master/scripts/take_fenced.lua");

/// What a free lock's script says where the counter is this, what the counter is then,
/// and whether the lock was taken.
async fn takes_after(
    c: &mut MultiplexedConnection,
    script: &str,
    before: &[(&str, &str)],
) -> (Value, Fields, bool) {
    run(c, &["DEL", "lock"]).await;
    set_counter(c, before).await;
    let reply = take(c, script, "mine").await;
    let taken = run(c, &["GET", "lock"]).await == text("mine");
    (reply, counter(c).await, taken)
}

fn counted(count: i64) -> (Value, Fields, bool) {
    (
        Value::Int(count),
        fields(&[("me", &count.to_string())]),
        true,
    )
}

/// The seconds of the server's clock.
async fn clock(c: &mut MultiplexedConnection) -> i64 {
    let Value::Array(now) = run(c, &["TIME"]).await else {
        panic!("it tells the time");
    };
    redis::from_redis_value(now[0].clone()).unwrap()
}

async fn takes_fenced(script: &str, server: &Server) -> bool {
    let mut c = fresh(server).await;
    seeds(&mut c, script).await
        && counts_on(&mut c, script).await
        && goes_on_by_the_clock(&mut c, script).await
        && takes_nothing_where_it_is_too_high(&mut c, script).await
        && takes_nothing_where_it_fails(&mut c, script).await
        && loses_no_count(&mut c, script).await
}

async fn seeds(c: &mut MultiplexedConnection, script: &str) -> bool {
    let seconds = clock(c).await;
    let Value::Int(seeded) = take(c, script, "mine").await else {
        return false;
    };
    // In microseconds, of which the last six figures are all 0 once in a million times.
    let by_the_clock = (seconds..seconds + 60).contains(&(seeded / 1_000_000));
    let value = run(c, &["GET", "lock"]).await;
    let lives = lives_for(c, "lock", 20_000).await && lives_for(c, "count", 90_000).await;
    let taken = take(c, script, "yours").await;
    let kept = (run(c, &["GET", "lock"]).await, counter(c).await);
    by_the_clock
        && seeded % 1_000_000 != 0
        && lives
        && (value, taken) == (text("mine"), Value::Nil)
        && kept == (text("mine"), fields(&[("me", &seeded.to_string())]))
}

/// A counter that this generation has written counts on, whatever the time is, up to the
/// greatest that numbers of Lua are exact for.
async fn counts_on(c: &mut MultiplexedConnection, script: &str) -> bool {
    for (before, next) in [
        ("999999999999999", 1_000_000_000_000_000),
        ("1000000000000005", 1_000_000_000_000_006),
        ("9007199254740990", 9_007_199_254_740_991),
    ] {
        if takes_after(c, script, &[("me", before)]).await != counted(next) {
            return false;
        }
    }
    lives_for(c, "count", 90_000).await && lives_for(c, "lock", 20_000).await
}

/// One that somebody else has written may be older than it was, and never goes down; a
/// field that no clock has begun is of a taking that failed.
async fn goes_on_by_the_clock(c: &mut MultiplexedConnection, script: &str) -> bool {
    for below in [
        &[("you", "5")][..],
        &[("you", "-5")],
        &[("me", "1")],
        &[("me", "-2")],
        &[("me", "999999999999998")],
        &[("you", "5"), ("me", "1"), ("they", "7")],
    ] {
        let seconds = clock(c).await;
        let taken = takes_after(c, script, below).await;
        let Value::Int(count) = taken.0 else {
            return false;
        };
        let by_the_clock = (seconds..seconds + 60).contains(&(count / 1_000_000));
        if taken != counted(count) || !by_the_clock {
            return false;
        }
    }
    for above in [
        &[("you", "9007199254740000")][..],
        &[("you", "9007199254740000"), ("me", "1"), ("they", "5")],
        &[("they", "5"), ("me", "1"), ("you", "9007199254740000")],
    ] {
        if takes_after(c, script, above).await != counted(9_007_199_254_740_001) {
            return false;
        }
    }
    lives_for(c, "count", 90_000).await
}

async fn takes_nothing_where_it_is_too_high(c: &mut MultiplexedConnection, script: &str) -> bool {
    for (before, after) in [
        (
            &[("me", "9007199254740991")][..],
            &[("me", "9007199254740992")][..],
        ),
        (
            &[("you", "9007199254740991")],
            &[("you", "9007199254740991"), ("me", "1")],
        ),
        (
            &[("you", "99999999999999999999999999")],
            &[("you", "99999999999999999999999999"), ("me", "1")],
        ),
    ] {
        let failed = takes_after(c, script, before).await;
        let untaken = (no_count(), fields(after), false);
        if failed != untaken || !lives_for(c, "count", 30_000).await {
            return false;
        }
    }
    let highest = [("me", "9223372036854775807")];
    takes_after(c, script, &highest).await == (an_error(), fields(&highest), false)
}

async fn takes_nothing_where_it_fails(c: &mut MultiplexedConnection, script: &str) -> bool {
    for value in ["none", "", "1.5", "5 ", "0x10", "nan", "-"] {
        for (writer, error) in [("me", an_error()), ("you", no_count())] {
            let (reply, counter, taken) = takes_after(c, script, &[(writer, value)]).await;
            let kept = counter[0] == (writer.into(), value.into());
            if (reply, kept, taken) != (error, true, false) {
                return false;
            }
        }
    }
    run(c, &["DEL", "count", "lock"]).await;
    run(c, &["SET", "count", "5:me"]).await;
    let no_counter = take(c, script, "mine").await;
    let not_taken = run(c, &["GET", "lock"]).await;
    run(c, &["DEL", "count"]).await;
    let no_life = counting(c, script, ["mine", "20000", "soon"]).await;
    let not_taken_either = run(c, &["GET", "lock"]).await;
    (no_counter, no_life) == (an_error(), an_error())
        && (not_taken, not_taken_either) == (Value::Nil, Value::Nil)
}

/// Whatever else a user may not do who may count: what was counted stays, and the next
/// taking is above it.
async fn loses_no_count(c: &mut MultiplexedConnection, script: &str) -> bool {
    for forbidden in ["-time", "-hgetall", "-hset", "-del", "-pexpire", "-set"] {
        run(c, &["DEL", "lock"]).await;
        set_counter(c, &[("you", "9007199254740000")]).await;
        let rules = ["ACL", "SETUSER", "default", forbidden];
        run(c, &rules).await;
        let limited = take(c, script, "mine").await;
        run(c, &["ACL", "SETUSER", "default", "+@all"]).await;
        let taken = run(c, &["DEL", "lock"]).await == Value::Int(1);
        if taken != matches!(limited, Value::Int(_)) {
            return false;
        }
        match take(c, script, "mine").await {
            Value::Int(count)
                if (9_007_199_254_740_001..9_007_199_254_740_003).contains(&count) => {}
            _ => return false,
        }
    }
    true
}

#[tokio::test]
async fn each_part_of_taking_a_fenced_lock_is_needed() {
    let count = "local count = redis.call('HINCRBY', KEYS[2], ARGV[4], 1)\n";
    let too_high = between(TAKE_FENCED, "local digits", "\nend\n");
    let begin = between(TAKE_FENCED, "if is_new then\n  -- Whoever", "\nend\n");
    let set_lock = "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n";
    let in_order = format!("{too_high}{begin}");
    let begun_first =
        format!("{begin}{too_high}").replace(", digits)", ", string.format('%.0f', count))");
    let lock_first = format!("{set_lock}{count}");
    let set_last = [
        &in_order,
        "redis.call('PEXPIRE', KEYS[2], ARGV[3])\n",
        set_lock,
    ]
    .concat();
    let parts = [
        (
            "if redis.call('EXISTS', KEYS[1]) == 1 then",
            "if false then",
        ),
        (
            "  return false",
            "  return redis.call('HINCRBY', KEYS[2], ARGV[4], 1)",
        ),
        ("ARGV[4], 1)", "'x', 1)"),
        ("ARGV[4], 1)", "ARGV[4], 2)"),
        ("count < 1e15", "false"),
        ("count < 1e15", "true"),
        ("count < 1e15", "count == 1"),
        ("count < 1e15", "count <= 1e15"),
        ("count < 1e15", "count < 1e15 - 1"),
        ("count = now[1] * 1000000 + ", "count = "),
        ("count = now[1]", "count = count + now[1]"),
        (" + now[2]", " + now[2] * 0"),
        ("value = 2, #counter", "value = 4, #counter"),
        ("value = 2, #counter", "value = 2, 2"),
        (
            "if not string.find(counter[value], '^%-?%d+$') then",
            "if false then",
        ),
        ("'^%-", "'%-"),
        ("%-?", ""),
        ("+$'", "+'"),
        ("+$'", "*$'"),
        ("math.max(count, counter[value] + 1)", "counter[value] + 1"),
        ("math.max(count, counter[value] + 1)", "count"),
        ("counter[value] + 1", "counter[value]"),
        ("string.format('%.0f', count)", "tostring(count)"),
        ("count >= 2 ^ 53", "false"),
        ("count >= 2 ^ 53", "count > 2 ^ 53"),
        ("count >= 2 ^ 53", "count >= 2 ^ 53 - 1"),
        (&begin, ""),
        (&in_order, &begun_first),
        ("  redis.call('DEL', KEYS[2])\n", ""),
        ("  redis.call('HINCRBY', KEYS[2], ARGV[4], digits)\n", ""),
        (
            "redis.call('HINCRBY', KEYS[2], ARGV[4], digits)",
            "redis.call('HSET', KEYS[2], ARGV[4], digits)",
        ),
        ("redis.call('PEXPIRE', KEYS[2], ARGV[3])\n", ""),
        ("KEYS[2], ARGV[3])", "KEYS[2], ARGV[2])"),
        ("'PX', ARGV[2])", "'PX', ARGV[3])"),
        (
            "redis.call('SET', KEYS[1], ARGV[1]",
            "redis.call('SET', KEYS[1], 'x'",
        ),
        ("return count", "return count + 1"),
        (count, &lock_first),
        (
            &set_last,
            &format!("{set_lock}{in_order}redis.call('PEXPIRE', KEYS[2], ARGV[3])\n"),
        ),
    ];
    each_part_is_needed(TAKE_FENCED, &parts, takes_fenced).await;
}

/// The part of a script from one text to the end of the next other one.
fn between(script: &str, from: &str, to: &str) -> String {
    let part = &script[script.find(from).expect("it has that")..];
    part[..part.find(to).expect("it ends") + to.len()].to_owned()
}

#[tokio::test]
async fn a_fenced_lock_costs_four_commands_where_its_counter_counts_on() {
    let server = Server::start().await;
    let mut c = fresh(&server).await;
    set_counter(&mut c, &[("me", "1000000000000005")]).await;
    run(&mut c, &["CONFIG", "RESETSTAT"]).await;
    let count = Value::Int(1_000_000_000_000_006);
    assert_eq!(take(&mut c, TAKE_FENCED, "mine").await, count);
    let stats: String =
        redis::from_redis_value(run(&mut c, &["INFO", "commandstats"]).await).unwrap();
    let mut called: Vec<_> = stats
        .lines()
        .filter_map(|line| line.split(',').next())
        .collect();
    called.retain(|command| command.starts_with("cmdstat_"));
    called.sort_unstable();
    let expected = [
        "eval:calls=1",
        "exists:calls=1",
        "hincrby:calls=1",
        "pexpire:calls=1",
        "set:calls=1",
    ];
    let others = |command: &&str| !command.starts_with("cmdstat_config");
    let called = called
        .into_iter()
        .filter(others)
        .map(|command| &command["cmdstat_".len()..]);
    assert_eq!(called.collect::<Vec<_>>(), expected);
}
