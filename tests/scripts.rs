//! What the scripts do on a server, and that each part of them is needed: every
//! change of one must show.

mod support;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::server::Server;

const RELEASE: &str = include_str!("../src/master/scripts/release.lua");
const EXTEND: &str = include_str!("../src/master/scripts/extend.lua");
const TAKE_FENCED: &str = include_str!("../src/master/scripts/take_fenced.lua");
const RAISE: &str = include_str!("../src/master/scripts/raise.lua");

/// A connection to a server whose memory is empty.
async fn fresh(server: &Server) -> MultiplexedConnection {
    server.wipe().await;
    server.connection().await
}

/// The reply, or that there was an error.
async fn run(connection: &mut MultiplexedConnection, words: &[&str]) -> Value {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let reply = command.query_async(connection).await;
    reply.unwrap_or_else(|_| Value::SimpleString("an error".into()))
}

/// Whether the key has between half of this time and all of it to live.
async fn lives_for(connection: &mut MultiplexedConnection, key: &str, millis: i64) -> bool {
    let left = run(connection, &["PTTL", key]).await;
    matches!(left, Value::Int(left) if left > millis / 2 && left <= millis)
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

async fn releases(script: &str, server: &Server) -> bool {
    let mut c = fresh(server).await;
    run(&mut c, &["SET", "lock", "mine"]).await;
    let others = run(&mut c, &["EVAL", script, "1", "lock", "yours"]).await;
    let kept = run(&mut c, &["GET", "lock"]).await;
    let own = run(&mut c, &["EVAL", script, "1", "lock", "mine"]).await;
    let gone = run(&mut c, &["GET", "lock"]).await;
    let again = run(&mut c, &["EVAL", script, "1", "lock", "mine"]).await;
    (others, kept, own, gone, again)
        == (
            Value::Int(0),
            text("mine"),
            Value::Int(1),
            Value::Nil,
            Value::Int(0),
        )
}

async fn extends(script: &str, server: &Server) -> bool {
    let mut c = fresh(server).await;
    let eval = |token: &'static str| ["EVAL", script, "1", "lock", token, "60000"];
    let missing = run(&mut c, &eval("mine")).await;
    let not_made = run(&mut c, &["GET", "lock"]).await;
    run(&mut c, &["SET", "lock", "mine", "PX", "20000"]).await;
    let others = run(&mut c, &eval("yours")).await;
    let untouched = lives_for(&mut c, "lock", 20_000).await;
    // Whoever extends it is told of the next change.
    run(&mut c, &["CLIENT", "TRACKING", "ON", "NOLOOP"]).await;
    let own = run(&mut c, &eval("mine")).await;
    let tracked = server.connection().await;
    let stats = run(&mut { tracked }, &["INFO", "stats"]).await;
    let tracked = format!("{stats:?}").contains("tracking_total_keys:1");
    let extended = lives_for(&mut c, "lock", 60_000).await;
    (missing, not_made, others, own) == (Value::Int(0), Value::Nil, Value::Int(0), Value::Int(1))
        && untouched
        && extended
        && tracked
}

async fn takes_fenced(script: &str, server: &Server) -> bool {
    let mut c = fresh(server).await;
    let eval = |token: &'static str| {
        [
            "EVAL", script, "2", "lock", "count", token, "20000", "90000",
        ]
    };
    let Value::Array(now) = run(&mut c, &["TIME"]).await else {
        panic!("it tells the time");
    };
    let seconds: String = redis::from_redis_value(now[0].clone()).unwrap();
    let Value::Int(seeded) = run(&mut c, &eval("mine")).await else {
        return false;
    };
    // In microseconds, of which the last six figures are all 0 once in a million times.
    let digits = seeded.to_string();
    let by_the_clock =
        digits.len() == 16 && digits.starts_with(&seconds[..8]) && !digits.ends_with("000000");
    let value = run(&mut c, &["GET", "lock"]).await;
    let lives = lives_for(&mut c, "lock", 20_000).await && lives_for(&mut c, "count", 90_000).await;
    let taken = run(&mut c, &eval("yours")).await;
    let kept = (
        run(&mut c, &["GET", "lock"]).await,
        run(&mut c, &["GET", "count"]).await,
    );

    // The greatest that numbers of Lua are exact for.
    run(&mut c, &["DEL", "lock"]).await;
    run(&mut c, &["SET", "count", "9007199254740990", "PX", "30000"]).await;
    let counted = run(&mut c, &eval("mine")).await;
    let lives_on = lives_for(&mut c, "count", 90_000).await;

    // A counter that was begun without the time is none either.
    run(&mut c, &["DEL", "lock"]).await;
    run(&mut c, &["SET", "count", "1"]).await;
    let again = run(&mut c, &eval("mine")).await;
    let seeded_again = matches!(again, Value::Int(again) if again >= seeded);

    run(&mut c, &["DEL", "lock"]).await;
    run(&mut c, &["SET", "count", "none"]).await;
    let failed = run(&mut c, &eval("mine")).await;
    let not_taken = run(&mut c, &["GET", "lock"]).await;
    by_the_clock
        && lives
        && lives_on
        && seeded_again
        && (value, taken, counted) == (text("mine"), Value::Nil, Value::Int(9_007_199_254_740_991))
        && kept == (text("mine"), text(&seeded.to_string()))
        && (failed, not_taken) == (Value::SimpleString("an error".into()), Value::Nil)
}

async fn raises(script: &str, server: &Server) -> bool {
    let mut c = fresh(server).await;
    let eval = |token: &'static str, count: &'static str| {
        ["EVAL", script, "2", "lock", "count", token, count, "90000"]
    };
    let missing = run(&mut c, &eval("mine", "5")).await;
    run(&mut c, &["SET", "lock", "mine"]).await;
    let others = run(&mut c, &eval("yours", "5")).await;
    let not_made = run(&mut c, &["GET", "count"]).await;
    let made = run(&mut c, &eval("mine", "5")).await;
    let lives = lives_for(&mut c, "count", 90_000).await;
    let five = run(&mut c, &["GET", "count"]).await;
    let raised = run(&mut c, &eval("mine", "17")).await;
    let up = run(&mut c, &["GET", "count"]).await;
    let again = run(&mut c, &eval("mine", "17")).await;
    let lower = run(&mut c, &eval("mine", "9")).await;
    let stays = run(&mut c, &["GET", "count"]).await;
    (missing, others, not_made) == (Value::Int(0), Value::Int(0), Value::Nil)
        && (made, five) == (Value::Int(1), text("5"))
        && (raised, up) == (Value::Int(1), text("17"))
        && (again, lower, stays) == (Value::Int(1), Value::Int(0), text("17"))
        && lives
}

/// The script does what it is for; with any of these parts replaced it doesn't.
async fn each_part_is_needed(
    script: &str,
    parts: &[(&str, &str)],
    works: impl AsyncFn(&str, &Server) -> bool,
) {
    let server = Server::start().await;
    assert!(works(script, &server).await, "the script itself");
    for (part, instead) in parts {
        assert!(script.contains(part), "{part} is in it");
        let mutant = script.replacen(part, instead, 1);
        assert!(
            !works(&mutant, &server).await,
            "nobody misses {part}: {instead}"
        );
    }
}

#[tokio::test]
async fn each_part_of_the_release_is_needed() {
    let parts = [
        ("==", "~="),
        (
            "if redis.call('GET', KEYS[1]) == ARGV[1] then",
            "if true then",
        ),
        ("'DEL'", "'GET'"),
        ("return 0", "return 1"),
    ];
    each_part_is_needed(RELEASE, &parts, releases).await;
}

#[tokio::test]
async fn each_part_of_the_extension_is_needed() {
    let parts = [
        ("==", "~="),
        (
            "if redis.call('GET', KEYS[1]) == ARGV[1] then",
            "if true then",
        ),
        ("'PEXPIRE'", "'EXPIRE'"),
        ("ARGV[2])", "20000)"),
        ("  redis.call('GET', KEYS[1])\n", ""),
        ("return extended", "return 0"),
        ("return 0", "return 1"),
    ];
    each_part_is_needed(EXTEND, &parts, extends).await;
}

#[tokio::test]
async fn each_part_of_taking_a_fenced_lock_is_needed() {
    let parts = [
        (
            "if redis.call('EXISTS', KEYS[1]) == 1 then",
            "if false then",
        ),
        ("  return false", "  return redis.call('INCR', KEYS[2])"),
        ("redis.call('INCR', KEYS[2])", "1"),
        ("count < 1000000000000000", "false"),
        ("count < 1000000000000000", "count == 1"),
        ("count < 1000000000000000", "true"),
        ("now[1] * 1000000 + ", ""),
        (" + now[2]", " + now[2] * 0"),
        ("%.0f", "%f"),
        (
            "  redis.call('SET', KEYS[2], string.format('%.0f', count))\n",
            "",
        ),
        ("redis.call('PEXPIRE', KEYS[2], ARGV[3])\n", ""),
        ("'PEXPIRE', KEYS[2], ARGV[3]", "'PEXPIRE', KEYS[2], ARGV[2]"),
        ("'PX', ARGV[2])", "'PX', ARGV[3])"),
        (
            "redis.call('SET', KEYS[1], ARGV[1]",
            "redis.call('SET', KEYS[1], 'x'",
        ),
        ("return count", "return count + 1"),
    ];
    each_part_is_needed(TAKE_FENCED, &parts, takes_fenced).await;
    let set = "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n";
    let first = format!("{set}{}", TAKE_FENCED.replace(set, ""));
    let server = Server::start().await;
    assert!(!takes_fenced(&first, &server).await, "the lock is set last");
}

#[tokio::test]
async fn each_part_of_raising_a_count_is_needed() {
    let parts = [
        ("~=", "=="),
        ("return 0", "return 1"),
        (" or 0", ""),
        ("count > tonumber(ARGV[2])", "false"),
        ("count > tonumber(ARGV[2])", "count >= tonumber(ARGV[2])"),
        ("count < tonumber(ARGV[2])", "false"),
        ("tonumber(redis.call", "(redis.call"),
        (", 'PX', ARGV[3]", ""),
        ("return 1", "return 0"),
    ];
    each_part_is_needed(RAISE, &parts, raises).await;
}
