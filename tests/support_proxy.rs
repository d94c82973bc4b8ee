//! Tests of the proxy that breaks connections in other tests.

mod support;

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};
use support::proxy::{Flow, Proxy};
use support::resp::{take_frame, words};
use support::server::Server;
use support::wait::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(10);
const A_WHILE: Duration = Duration::from_millis(100);

struct Path {
    server: Server,
    proxy: Proxy,
    connection: MultiplexedConnection,
}

/// A server, a proxy in front of it and a connection through that.
async fn path() -> Path {
    let server = Server::start().await;
    let proxy = Proxy::in_front_of(server.addr()).await;
    let connection = support::inspect::connection(&proxy.url()).await;
    let mut path = Path {
        server,
        proxy,
        connection,
    };
    // Whatever the client says at the start has passed now.
    path.set("start").await.unwrap();
    path
}

impl Path {
    async fn set(&mut self, key: &str) -> RedisResult<()> {
        set(&mut self.connection, key).await
    }

    async fn has(&self, key: &str) -> bool {
        self.server.get(key).await.is_some()
    }
}

async fn set(connection: &mut MultiplexedConnection, key: &str) -> RedisResult<()> {
    redis::cmd("SET")
        .arg(key)
        .arg("value")
        .query_async(connection)
        .await
}

#[tokio::test]
async fn everything_passes_at_first() {
    let mut path = path().await;
    path.set("key").await.unwrap();
    assert!(path.has("key").await);
    assert_eq!(path.proxy.connections(), 1);
    assert_eq!(path.proxy.open_connections(), 1);
    drop(path.connection);
    eventually("closed", SOON, async || path.proxy.open_connections() == 0).await;
}

#[tokio::test]
async fn a_delay_delays_and_keeps_the_pipeline_and_its_order() {
    let mut path = path().await;
    for direction in [Proxy::requests, Proxy::replies] {
        direction(&path.proxy, Flow::Delay(A_WHILE));
        let start = Instant::now();
        let push = |n: i32| {
            let mut connection = path.connection.clone();
            async move {
                let push = redis::cmd("RPUSH").arg("list").arg(n).to_owned();
                push.query_async::<()>(&mut connection).await.unwrap();
            }
        };
        tokio::join!(push(1), push(2), push(3), push(4));
        assert!(start.elapsed() >= A_WHILE);
        assert!(
            start.elapsed() < 3 * A_WHILE,
            "one after the other: {:?}",
            start.elapsed()
        );
        direction(&path.proxy, Flow::Pass);
    }
    let list = redis::cmd("LRANGE").arg("list").arg(0).arg(-1).to_owned();
    let list: Vec<i32> = list.query_async(&mut path.connection).await.unwrap();
    assert_eq!(list, [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[tokio::test]
async fn a_black_hole_for_requests_keeps_them_from_the_master() {
    let mut path = path().await;
    path.proxy.requests(Flow::BlackHole);
    assert!(timeout(A_WHILE, path.set("key")).await.is_err());
    assert_eq!(path.proxy.open_connections(), 1);
    path.proxy.requests(Flow::Pass);
    let mut other = support::inspect::connection(&path.proxy.url()).await;
    set(&mut other, "other").await.unwrap();
    assert!(!path.has("key").await);
}

#[tokio::test]
async fn a_black_hole_for_replies_lets_the_master_do_what_was_asked() {
    let mut path = path().await;
    path.proxy.replies(Flow::BlackHole);
    assert!(timeout(A_WHILE, path.set("key")).await.is_err());
    assert!(path.has("key").await);
    path.proxy.replies(Flow::Pass);
    assert!(timeout(A_WHILE, path.set("after the gap")).await.is_err());
    assert!(path.has("after the gap").await);
    assert_eq!(path.proxy.open_connections(), 1);
}

#[tokio::test]
async fn a_black_hole_hides_that_the_master_died() {
    let mut path = path().await;
    path.proxy.replies(Flow::BlackHole);
    path.server.kill();
    assert!(timeout(A_WHILE, path.set("key")).await.is_err());
    path.proxy.replies(Flow::Pass);
    assert!(is_broken(timeout(SOON, path.set("key")).await.unwrap()));
}

#[tokio::test]
async fn a_limit_slows_down() {
    let mut path = path().await;
    let value = vec![b'x'; 20_000];
    path.proxy.requests(Flow::Limit(100_000));
    let start = Instant::now();
    let set = redis::cmd("SET").arg("key").arg(&value).to_owned();
    set.query_async::<()>(&mut path.connection).await.unwrap();
    assert!(
        start.elapsed() >= Duration::from_millis(200),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(path.server.get("key").await, Some(value));
}

fn is_broken(result: RedisResult<()>) -> bool {
    result.is_err_and(|error: RedisError| error.is_io_error() || error.is_connection_dropped())
}

#[tokio::test]
async fn a_reset_reaches_the_client_and_ends_both_sides() {
    let path = path().await;
    let mut client = TcpStream::connect(path.proxy.addr()).await.unwrap();
    client.write_all(b"*1\r\n$4\r\nPING\r\n").await.unwrap();
    client.read_exact(&mut [0; 7]).await.unwrap();
    path.proxy.reset();
    let error = client.read(&mut [0]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    eventually("closed", SOON, async || path.proxy.open_connections() == 0).await;
    support::inspect::connection(&path.proxy.url()).await;
    assert_eq!(path.proxy.connections(), 3);
}

#[tokio::test]
async fn a_half_open_connection_is_silent_and_the_master_has_lost_it() {
    let mut path = path().await;
    let clients = async || {
        let clients: String =
            support::inspect::ask(&path.server.url(), redis::cmd("CLIENT").arg("LIST")).await;
        clients.lines().count()
    };
    // The one through the proxy and the one that asks.
    assert_eq!(clients().await, 2);
    path.proxy.half_open();
    eventually("the master has lost it", SOON, async || {
        clients().await == 1
    })
    .await;
    assert_eq!(path.proxy.open_connections(), 1);
    assert!(timeout(A_WHILE, path.set("key")).await.is_err());
    assert!(!path.has("key").await);
    path.proxy.reset();
    assert!(is_broken(timeout(SOON, path.set("key")).await.unwrap()));
}

#[tokio::test]
async fn refused_connections_are_refused_and_present_ones_go_on() {
    let mut path = path().await;
    path.proxy.refuse().await;
    let error = TcpStream::connect(path.proxy.addr()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    path.set("key").await.unwrap();
    path.proxy.accept().await;
    set(
        &mut support::inspect::connection(&path.proxy.url()).await,
        "other",
    )
    .await
    .unwrap();
    assert_eq!(path.proxy.connections(), 2);
}

#[tokio::test]
async fn a_dead_master_breaks_the_connection() {
    let mut path = path().await;
    path.server.kill();
    assert!(is_broken(timeout(SOON, path.set("key")).await.unwrap()));
    let mut late = TcpStream::connect(path.proxy.addr()).await.unwrap();
    assert!(late.read(&mut [0]).await.is_err());
}

#[tokio::test]
async fn the_nth_reply_is_lost_with_what_follows_it() {
    let path = path().await;
    path.proxy.lose_reply(2);
    path.proxy.lose_reply(5);
    for lost in [1, 2] {
        let mut client = TcpStream::connect(path.proxy.addr()).await.unwrap();
        for word in ["a\r\nb", "c", "d"] {
            let echo = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{word}\r\n", word.len());
            client.write_all(echo.as_bytes()).await.unwrap();
        }
        assert_eq!(read_all(&mut client).await, b"$4\r\na\r\nb\r\n");
        assert_eq!(path.proxy.replies_lost(), lost);
    }
}

/// All that comes until it is quiet.
async fn read_all(client: &mut TcpStream) -> Vec<u8> {
    let mut seen = Vec::new();
    while let Ok(Ok(1..)) = timeout(A_WHILE, client.read_buf(&mut seen)).await {}
    seen
}

#[tokio::test]
async fn the_reply_to_a_command_is_lost_though_the_master_did_it() {
    let mut path = path().await;
    path.proxy.lose_reply_to("SET");
    redis::cmd("GET")
        .arg("key")
        .query_async::<Option<String>>(&mut path.connection)
        .await
        .unwrap();
    assert_eq!(path.proxy.replies_lost(), 0);
    assert!(timeout(A_WHILE, path.set("key")).await.is_err());
    assert!(path.has("key").await);
    assert_eq!(path.proxy.replies_lost(), 1);
}

#[tokio::test]
async fn pushes_are_not_counted_as_replies() {
    let path = path().await;
    let mut client = TcpStream::connect(path.proxy.addr()).await.unwrap();
    client
        .write_all(b"HELLO 3\r\nCLIENT TRACKING ON\r\nGET key\r\nGET key\r\n")
        .await
        .unwrap();
    let mut seen = Vec::new();
    until_seen(&mut client, &mut seen, b"_\r\n_\r\n").await;
    path.proxy.lose_reply(1);
    set(&mut path.server.connection().await, "key")
        .await
        .unwrap();
    until_seen(&mut client, &mut seen, b"invalidate\r\n*1\r\n$3\r\nkey\r\n").await;
    assert_eq!(path.proxy.replies_lost(), 0);
    client.write_all(b"ECHO lost\r\n").await.unwrap();
    eventually("lost", SOON, async || path.proxy.replies_lost() == 1).await;
    assert_eq!(read_all(&mut client).await, b"");
}

async fn until_seen(client: &mut TcpStream, seen: &mut Vec<u8>, end: &[u8]) {
    while !seen.ends_with(end) {
        let read = timeout(SOON, client.read_buf(seen)).await;
        let text = String::from_utf8_lossy(seen);
        assert!(
            read.is_ok_and(|read| read.is_ok_and(|bytes| bytes > 0)),
            "only: {text}"
        );
    }
}

#[tokio::test]
async fn a_connection_breaks_in_the_place_of_a_reply() {
    let mut path = path().await;
    path.proxy.reset_at_reply_to("set");
    assert!(is_broken(timeout(SOON, path.set("key")).await.unwrap()));
    assert!(path.has("key").await);
}

#[tokio::test]
async fn a_reply_is_replaced() {
    let mut path = path().await;
    path.proxy.replace_reply_to("key", b"-LOADING not yet\r\n");
    assert_eq!(path.set("key").await.unwrap_err().code(), Some("LOADING"));
    assert!(path.has("key").await);
    path.set("key").await.unwrap();
}

#[tokio::test]
async fn withheld_requests_arrive_after_their_connection_broke() {
    let mut path = path().await;
    path.proxy.hold_requests();
    assert!(timeout(A_WHILE, path.set("key")).await.is_err());
    drop(path.connection);
    // The SET and the end of the client's stream.
    eventually("held", SOON, async || path.proxy.requests_waiting() == 2).await;
    assert_eq!(path.server.get("key").await, None);
    path.proxy.release_held();
    eventually("applied", SOON, async || {
        path.server.get("key").await.is_some()
    })
    .await;
    eventually("closed", SOON, async || path.proxy.open_connections() == 0).await;
    assert_eq!(path.proxy.requests_waiting(), 0);
}

#[tokio::test]
async fn one_command_and_what_follows_it_are_withheld_on_its_connection_only() {
    let mut path = path().await;
    path.proxy.hold_requests_with("slow");
    path.set("fast").await.unwrap();
    let mut other = support::inspect::connection(&path.proxy.url()).await;
    let (mut first, mut second) = (path.connection.clone(), path.connection.clone());
    {
        let held = async { tokio::join!(set(&mut first, "slow"), set(&mut second, "behind")) };
        let mut held = std::pin::pin!(held);
        assert!(timeout(A_WHILE, held.as_mut()).await.is_err());
        set(&mut other, "other").await.unwrap();
        path.proxy.release_held();
        let (slow, behind) = timeout(SOON, held).await.unwrap();
        slow.and(behind).unwrap();
    }
    assert!(path.has("slow").await && path.has("behind").await);
}

#[tokio::test]
async fn a_dropped_proxy_closes_its_connections() {
    let mut path = path().await;
    drop(path.proxy);
    let set = set(&mut path.connection, "key");
    assert!(is_broken(timeout(SOON, set).await.unwrap()));
}

/// Every kind of frame, with the traps: line breaks inside strings, nulls, nesting.
const FRAMES: &[&[u8]] = &[
    b"+OK\r\n",
    b"-ERR no\r\n",
    b":-17\r\n",
    b"$4\r\na\r\nb\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*3\r\n$2\r\n\r\n\r\n*1\r\n:1\r\n$-1\r\n",
    b"%2\r\n+a\r\n:1\r\n$1\r\nb\r\n*2\r\n#t\r\n_\r\n",
    b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
    b"~2\r\n,1.5\r\n#f\r\n",
    b"|1\r\n+ttl\r\n:3\r\n$1\r\nv\r\n",
    b"(3492890328409238509324850943850943825024385\r\n",
    b"=7\r\ntxt:a\r\n\r\n",
    b"!5\r\nERR a\r\n",
];

#[test]
fn frames_are_split_where_they_end() {
    let mut stream = FRAMES.concat();
    for frame in FRAMES {
        assert_eq!(take_frame(&mut stream).as_deref(), Some(*frame));
    }
    assert!(stream.is_empty());
}

#[test]
fn a_frame_is_taken_only_when_all_of_it_is_there() {
    for frame in FRAMES {
        for cut in 0..frame.len() {
            assert_eq!(
                take_frame(&mut frame[..cut].to_vec()),
                None,
                "{frame:?} cut at {cut}"
            );
        }
    }
}

#[test]
fn words_of_a_request() {
    let request = b"*3\r\n$3\r\nSET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n";
    assert_eq!(words(request), [&b"SET"[..], b"a\r\nb", b""]);
}
