//! A write to Redis that is refused when a later owner of the lock has written.

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use redquorum::core::helper_key;

/// Says whether it was written; if not, the writer is not the owner any more.
pub async fn set(
    connection: &mut MultiplexedConnection,
    key: &str,
    value: &str,
    fencing_token: u64,
) -> RedisResult<bool> {
    let script = redis::Script::new(include_str!("guarded_set.lua"));
    let mut write = script.prepare_invoke();
    // `{stock}:written`, of the value's own hash tag: a cluster wants both in one
    // slot. (`{…}:fence` would be the lock's own counter, if the lock is on this
    // server too.)
    write.key(key).key(helper_key(key.as_bytes(), "written"));
    write.arg(value).arg(fencing_token);
    write.invoke_async(connection).await
}
