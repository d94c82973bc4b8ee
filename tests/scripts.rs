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

/// The fields of a counter, in order.
type Fields = Vec<(String, String)>;

fn fields(text: &[(&str, &str)]) -> Fields {
    let owned = |(field, value): &(&str, &str)| (field.to_string(), value.to_string());
    text.iter().map(owned).collect()
}

/// Sets the counter to just these fields, with half a minute to live.
async fn set_counter(c: &mut MultiplexedConnection, fields: &[(&str, &str)]) {
    run(c, &["DEL", "count"]).await;
    for (field, value) in fields {
        run(c, &["HSET", "count", field, value]).await;
    }
    run(c, &["PEXPIRE", "count", "30000"]).await;
}

async fn counter(c: &mut MultiplexedConnection) -> Fields {
    redis::from_redis_value(run(c, &["HGETALL", "count"]).await).unwrap()
}

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

async fn raises(script: &str, server: &Server) -> bool {
    let mut c = fresh(server).await;
    let c = &mut c;
    let missing = raise(c, script, ["mine", "5"]).await;
    run(c, &["SET", "lock", "mine"]).await;
    let others = raise(c, script, ["yours", "5"]).await;
    let not_made = counter(c).await;
    let made = raise(c, script, ["mine", "5"]).await;
    let lives = lives_for(c, "count", 90_000).await;
    let five = counter(c).await;
    let raised = raise(c, script, ["mine", "17"]).await;
    let up = counter(c).await;
    let again = raise(c, script, ["mine", "17"]).await;
    let lower = raise(c, script, ["mine", "9"]).await;
    let stays = counter(c).await;
    (missing, others, not_made) == (Value::Int(0), Value::Int(0), vec![])
        && (made, five) == (Value::Int(1), fields(&[("me", "5")]))
        && (raised, up) == (Value::Int(1), fields(&[("me", "17")]))
        && (again, lower, stays) == (Value::Int(1), Value::Int(0), fields(&[("me", "17")]))
        && lives
        && leaves_to_others(c, script).await
}

async fn raise(c: &mut MultiplexedConnection, script: &str, [token, count]: [&str; 2]) -> Value {
    counting(c, script, [token, count, "90000"]).await
}

/// A counter that somebody else has written, if only in part, may be older than it was.
async fn leaves_to_others(c: &mut MultiplexedConnection, script: &str) -> bool {
    for others in [
        &[("you", "5")][..],
        &[("me", "5"), ("you", "5")],
        &[("you", "5"), ("me", "5")],
        &[("me", "none")],
        &[("me", "5.5")],
        &[("me", " 5")],
        &[("me", "x5")],
        &[("me", "05")],
        &[("me", "0")],
        &[("me", "-5")],
        &[("me", "99999999999999999999")],
        &[("me", "5 ")],
    ] {
        set_counter(c, others).await;
        let refused = raise(c, script, ["mine", "17"]).await;
        if (refused, counter(c).await) != (Value::Int(0), fields(others)) {
            return false;
        }
    }
    run(c, &["SET", "count", "5:me"]).await;
    let no_counter = raise(c, script, ["mine", "17"]).await;
    run(c, &["DEL", "count"]).await;
    let high = raise(c, script, ["mine", "9007199254740991"]).await;
    (no_counter, high) == (an_error(), Value::Int(1))
        && counter(c).await == fields(&[("me", "9007199254740991")])
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

#[tokio::test]
async fn each_part_of_raising_a_count_is_needed() {
    let parts = [
        ("~=", "=="),
        ("return 0", "return 1"),
        ("if #counter > 0 then", "if true then"),
        ("if #counter > 0 then", "if false then"),
        ("'^[1-9]", "'[1-9]"),
        ("[1-9]%d*", "%d+"),
        ("*$'", "*'"),
        ("#counter > 2 or ", ""),
        ("counter[1] ~= ARGV[4] or ", ""),
        ("not count or ", ""),
        (" or count > tonumber(ARGV[2])", ""),
        ("count > ", "count >= "),
        ("    return 0", "    return 1"),
        (
            "redis.call('HINCRBY', KEYS[2], ARGV[4], string.format('%.0f', ARGV[2] - count))\n",
            "",
        ),
        ("ARGV[4], string.format", "'x', string.format"),
        (
            "string.format('%.0f', ARGV[2] - count)",
            "tostring(ARGV[2] - count)",
        ),
        (" - count)", ")"),
        ("redis.call('PEXPIRE', KEYS[2], ARGV[3])\n", ""),
        ("return 1", "return 0"),
    ];
    each_part_is_needed(RAISE, &parts, raises).await;
}
