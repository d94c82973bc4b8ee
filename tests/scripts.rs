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

/// Runs a script of a fenced lock with its token, a count or a time, and a counter's life.
async fn counting(
    c: &mut MultiplexedConnection,
    script: &str,
    [token, number, life]: [&str; 3],
) -> Value {
    let words = [
        "EVAL", script, "2", "lock", "count", token, number, life, "me",
    ];
    run(c, &words).await
}

async fn take(c: &mut MultiplexedConnection, script: &str, token: &str) -> Value {
    counting(c, script, [token, "20000", "90000"]).await
}

/// What a free lock's script says where the counter has this value, what the counter
/// says then, and whether the lock was taken.
async fn takes_after(c: &mut MultiplexedConnection, script: &str, counter: &str) -> Taken {
    run(c, &["DEL", "lock"]).await;
    run(c, &["SET", "count", counter, "PX", "30000"]).await;
    let reply = take(c, script, "mine").await;
    (
        reply,
        run(c, &["GET", "count"]).await,
        run(c, &["GET", "lock"]).await == text("mine"),
    )
}

type Taken = (Value, Value, bool);

fn counted(count: i64) -> Taken {
    (Value::Int(count), text(&format!("{count}:me")), true)
}

fn an_error() -> Value {
    Value::SimpleString("an error".into())
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
        && takes_nothing_where_it_fails(&mut c, script).await
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
    let kept = (
        run(c, &["GET", "lock"]).await,
        run(c, &["GET", "count"]).await,
    );
    by_the_clock
        && seeded % 1_000_000 != 0
        && lives
        && (value, taken) == (text("mine"), Value::Nil)
        && kept == (text("mine"), text(&format!("{seeded}:me")))
}

/// A counter that this generation has written counts on, whatever the time is, up to the
/// greatest that numbers of Lua are exact for.
async fn counts_on(c: &mut MultiplexedConnection, script: &str) -> bool {
    takes_after(c, script, "5:me").await == counted(6)
        && takes_after(c, script, "9007199254740990:me").await == counted(9_007_199_254_740_991)
        && lives_for(c, "count", 90_000).await
        && lives_for(c, "lock", 20_000).await
}

/// One that somebody else has written may be older than it was, and never goes down.
async fn goes_on_by_the_clock(c: &mut MultiplexedConnection, script: &str) -> bool {
    for below in ["5:you", "5", "5:", "5:me:me", "none", ":me", ""] {
        let seconds = clock(c).await;
        let taken = takes_after(c, script, below).await;
        let Value::Int(count) = taken.0 else {
            return false;
        };
        if taken != counted(count) || count / 1_000_000 < seconds {
            return false;
        }
    }
    for above in ["9007199254740000:you", "9007199254740000"] {
        if takes_after(c, script, above).await != counted(9_007_199_254_740_001) {
            return false;
        }
    }
    true
}

async fn takes_nothing_where_it_fails(c: &mut MultiplexedConnection, script: &str) -> bool {
    for too_high in [
        "9007199254740991:me",
        "9007199254740991:you",
        "9007199254740993:me",
        "99999999999999999999999999",
    ] {
        let untouched = (an_error(), text(too_high), false);
        let failed = takes_after(c, script, too_high).await;
        if failed != untouched || !lives_for(c, "count", 30_000).await {
            return false;
        }
    }
    run(c, &["DEL", "count", "lock"]).await;
    run(c, &["RPUSH", "count", "5:me"]).await;
    let no_counter = take(c, script, "mine").await;
    let not_taken = run(c, &["GET", "lock"]).await;
    run(c, &["DEL", "count"]).await;
    let no_life = counting(c, script, ["mine", "20000", "soon"]).await;
    let not_taken_either = run(c, &["GET", "lock"]).await;
    (no_counter, no_life) == (an_error(), an_error())
        && (not_taken, not_taken_either) == (Value::Nil, Value::Nil)
}

async fn raises(script: &str, server: &Server) -> bool {
    let mut c = fresh(server).await;
    let c = &mut c;
    let missing = raise(c, script, ["mine", "5"]).await;
    run(c, &["SET", "lock", "mine"]).await;
    let others = raise(c, script, ["yours", "5"]).await;
    let not_made = run(c, &["GET", "count"]).await;
    let made = raise(c, script, ["mine", "5"]).await;
    let lives = lives_for(c, "count", 90_000).await;
    let five = run(c, &["GET", "count"]).await;
    let raised = raise(c, script, ["mine", "17"]).await;
    let up = run(c, &["GET", "count"]).await;
    let again = raise(c, script, ["mine", "17"]).await;
    let lower = raise(c, script, ["mine", "9"]).await;
    let stays = run(c, &["GET", "count"]).await;
    (missing, others, not_made) == (Value::Int(0), Value::Int(0), Value::Nil)
        && (made, five) == (Value::Int(1), text("5:me"))
        && (raised, up) == (Value::Int(1), text("17:me"))
        && (again, lower, stays) == (Value::Int(1), Value::Int(0), text("17:me"))
        && lives
        && leaves_to_others(c, script).await
}

async fn raise(c: &mut MultiplexedConnection, script: &str, [token, count]: [&str; 2]) -> Value {
    counting(c, script, [token, count, "90000"]).await
}

/// A counter that somebody else has written may be older than it was.
async fn leaves_to_others(c: &mut MultiplexedConnection, script: &str) -> bool {
    for others in ["5:you", "5", "none", ":me"] {
        run(c, &["SET", "count", others]).await;
        let refused = raise(c, script, ["mine", "17"]).await;
        if (refused, run(c, &["GET", "count"]).await) != (Value::Int(0), text(others)) {
            return false;
        }
    }
    true
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
    let set_counter = "redis.call('SET', KEYS[2], digits .. ':' .. ARGV[4], 'PX', ARGV[3])\n";
    let set_lock = "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n";
    let in_order = format!("{set_counter}{set_lock}");
    let lock_first = format!("{set_lock}{set_counter}");
    let parts = [
        (
            "if redis.call('EXISTS', KEYS[1]) == 1 then",
            "if false then",
        ),
        ("  return false", "  return redis.call('INCR', KEYS[2])"),
        (" or ''", ""),
        ("^(%d+)", "^(%d*)"),
        (":?", ":"),
        ("(.*)$", "(.-):?.*$"),
        ("(tonumber(old) or 0) + 1", "1"),
        (" or 0)", ")"),
        (") + 1", ")"),
        ("writer ~= ARGV[4]", "false"),
        ("writer ~= ARGV[4]", "not writer"),
        ("writer ~= ARGV[4]", "true"),
        ("math.max(count, now[1]", "(now[1]"),
        ("now[1] * 1000000 + ", ""),
        (" + now[2]", " + now[2] * 0"),
        ("string.format('%.0f', count)", "tostring(count)"),
        ("count >= 2 ^ 53", "false"),
        ("count >= 2 ^ 53", "count > 2 ^ 53"),
        ("count >= 2 ^ 53", "count >= 2 ^ 53 - 1"),
        (set_counter, ""),
        ("digits .. ':' .. ARGV[4]", "digits"),
        ("'PX', ARGV[3])", "'PX', ARGV[2])"),
        ("'PX', ARGV[2])", "'PX', ARGV[3])"),
        (
            "redis.call('SET', KEYS[1], ARGV[1]",
            "redis.call('SET', KEYS[1], 'x'",
        ),
        ("return count", "return count + 1"),
        (&in_order, &lock_first),
    ];
    each_part_is_needed(TAKE_FENCED, &parts, takes_fenced).await;
}

#[tokio::test]
async fn a_fenced_lock_costs_four_commands_where_its_counter_counts_on() {
    let server = Server::start().await;
    let mut c = fresh(&server).await;
    run(&mut c, &["SET", "count", "5:me"]).await;
    run(&mut c, &["CONFIG", "RESETSTAT"]).await;
    assert_eq!(take(&mut c, TAKE_FENCED, "mine").await, Value::Int(6));
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
        "get:calls=1",
        "set:calls=2",
    ];
    let others = |command: &&str| !command.starts_with("cmdstat_config");
    let called = called
        .into_iter()
        .filter(others)
        .map(|command| &command["cmdstat_".len()..]);
    assert_eq!(called.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn each_part_of_raising_a_count_is_needed() {
    let parts = [
        ("~=", "=="),
        ("return 0", "return 1"),
        ("if counter then", "if true then"),
        ("^(%d+)", "^(%d*)"),
        (":?", ""),
        ("writer ~= ARGV[4]", "false"),
        ("writer ~= ARGV[4] or ", "not writer or "),
        ("tonumber(count) > tonumber(ARGV[2])", "false"),
        ("tonumber(count) > ", "tonumber(count) >= "),
        ("tonumber(count)", "count"),
        ("    return 0", "    return 1"),
        ("ARGV[2] .. ':' .. ARGV[4]", "ARGV[2]"),
        (", 'PX', ARGV[3]", ""),
        ("return 1", "return 0"),
    ];
    each_part_is_needed(RAISE, &parts, raises).await;
}
