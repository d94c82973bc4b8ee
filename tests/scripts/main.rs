//! What the scripts do on a server, and that each part of them is needed: every
//! change of one must show.

mod counter;
mod raising;
#[path = "../support/mod.rs"]
mod support;
mod taking;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::server::Server;

const RELEASE: &str = include_str!("../../src/master/scripts/release.lua");
const EXTEND: &str = include_str!("../../src/master/scripts/extend.lua");

/// A connection to a server whose memory is empty.
async fn fresh(server: &Server) -> MultiplexedConnection {
    server.wipe().await;
    server.connection().await
}

/// The reply, or that there was an error, and whether it is a counter's.
async fn run(connection: &mut MultiplexedConnection, words: &[&str]) -> Value {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let reply = command.query_async(connection).await;
    reply.unwrap_or_else(|error| match error.code() {
        Some("COUNTER") => no_count(),
        _ => an_error(),
    })
}

fn an_error() -> Value {
    Value::SimpleString("an error".into())
}

/// The error by which the scripts themselves say that a counter can't count.
fn no_count() -> Value {
    Value::SimpleString("no count".into())
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
