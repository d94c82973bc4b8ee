//! Raising the counter of a fenced lock.

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::counter::{counter, counting, fields, set_counter};
use super::support::server::Server;
use super::{an_error, each_part_is_needed, fresh, lives_for, run};

const RAISE: &str = include_str!("../../src/master/scripts/raise.lua");

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
