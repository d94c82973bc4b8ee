//! The counter of a fenced lock, on a server.

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::run;

/// Runs a script of a fenced lock with its token, a count or a time, and a counter's life.
pub(super) async fn counting(
    c: &mut MultiplexedConnection,
    script: &str,
    [token, number, life]: [&str; 3],
) -> Value {
    let words = [
        "EVAL", script, "2", "lock", "count", token, number, life, "me",
    ];
    run(c, &words).await
}

pub(super) async fn take(c: &mut MultiplexedConnection, script: &str, token: &str) -> Value {
    counting(c, script, [token, "20000", "90000"]).await
}

/// The fields of a counter, in order.
pub(super) type Fields = Vec<(String, String)>;

pub(super) fn fields(text: &[(&str, &str)]) -> Fields {
    let owned = |(field, value): &(&str, &str)| (field.to_string(), value.to_string());
    text.iter().map(owned).collect()
}

/// Sets the counter to just these fields, with half a minute to live.
pub(super) async fn set_counter(c: &mut MultiplexedConnection, fields: &[(&str, &str)]) {
    run(c, &["DEL", "count"]).await;
    for (field, value) in fields {
        run(c, &["HSET", "count", field, value]).await;
    }
    run(c, &["PEXPIRE", "count", "30000"]).await;
}

pub(super) async fn counter(c: &mut MultiplexedConnection) -> Fields {
    redis::from_redis_value(run(c, &["HGETALL", "count"]).await).unwrap()
}
