//! Looking into a master from outside of the library.

use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::wait;

/// Long, so that a slow machine is not taken for a dead server.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection of its own.
pub async fn connect(client: &redis::Client) -> redis::RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// A connection to the master at `url`; panics if there is none.
pub async fn connection(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL of Redis");
    connect(&client)
        .await
        .unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// All keys of the master at `url`, sorted.
pub async fn keys(url: &str) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = ask(url, redis::cmd("KEYS").arg("*")).await;
    keys.sort();
    keys
}

/// What the master at `url` holds at `key`.
pub async fn get(url: &str, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    ask(url, redis::cmd("GET").arg(key.as_ref())).await
}

/// What the counter of a fenced lock says on the master at `url`: the count of its one
/// generation.
pub async fn count(url: &str, counter: impl AsRef<[u8]>) -> Option<u64> {
    let fields: Vec<(String, u64)> = ask(url, redis::cmd("HGETALL").arg(counter.as_ref())).await;
    assert!(fields.len() < 2, "{url}: {fields:?}");
    fields.first().map(|(_, count)| *count)
}

/// Sends one command to the master at `url` on a connection of its own; panics if it fails.
pub async fn ask<T: redis::FromRedisValue>(url: &str, command: &redis::Cmd) -> T {
    let answer = command.query_async(&mut connection(url).await).await;
    answer.unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// One field of what `INFO section` of the master at `url` says.
pub async fn info(url: &str, section: &str, field: &str) -> Option<String> {
    let text: String = ask(url, redis::cmd("INFO").arg(section)).await;
    info_field(&text, field)
}

/// One field in the text of `INFO`.
pub fn info_field(text: &str, field: &str) -> Option<String> {
    text.lines()
        .find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned()))
}

/// What each of the masters holds at `key`, in order.
pub async fn get_everywhere(urls: &[String], key: impl AsRef<[u8]>) -> Vec<Option<Vec<u8>>> {
    let mut values = Vec::with_capacity(urls.len());
    for url in urls {
        values.push(get(url, key.as_ref()).await);
    }
    values
}

/// Panics unless `key` is gone from all of the masters within `within`.
pub async fn assert_free(urls: &[String], key: impl AsRef<[u8]>, within: Duration) {
    let key = key.as_ref();
    let free = async || get_everywhere(urls, key).await.iter().all(Option::is_none);
    if !wait::until(within, free).await {
        let held = get_everywhere(urls, key).await;
        let key = String::from_utf8_lossy(key);
        panic!("{key} is still held after {within:?}, by master: {held:?}");
    }
}
