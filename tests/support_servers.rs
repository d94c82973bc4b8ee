//! Tests of the tests' own servers: each claim of `support` that other tests rest on.

mod support;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::fleet::Fleet;
use support::server::{DURABLE, Server};
use support::{inspect, wait};

const SOON: Duration = Duration::from_secs(10);

async fn set(url: &str, key: &str) {
    inspect::ask::<()>(url, redis::cmd("SET").arg(key).arg("value")).await;
}

/// Whether a PING is answered soon.
async fn answers(server: &Server) -> bool {
    let mut connection = server.connection().await;
    let ping = redis::cmd("PING");
    let answer = ping.query_async::<()>(&mut connection);
    tokio::time::timeout(Duration::from_millis(200), answer)
        .await
        .is_ok()
}

#[tokio::test]
async fn a_server_shows_its_keys_and_what_was_called() {
    let server = Server::start().await;
    assert_eq!(server.keys().await, Vec::<Vec<u8>>::new());
    assert_eq!(server.commandstats("set").await, 0);
    set(&server.url(), "b").await;
    set(&server.url(), "a").await;
    assert_eq!(server.keys().await, [b"a", b"b"]);
    assert_eq!(server.get("a").await.as_deref(), Some(&b"value"[..]));
    assert_eq!(server.get("c").await, None);
    assert_eq!(server.commandstats("set").await, 2);
    server.wipe().await;
    assert_eq!(server.keys().await, Vec::<Vec<u8>>::new());
}

#[tokio::test]
async fn a_stopped_server_is_silent_until_it_goes_on() {
    let mut server = Server::start().await;
    assert!(answers(&server).await);
    let mut connection = server.connection().await;
    server.stop();
    server.stop();
    let ping = redis::cmd("PING");
    let answer = ping.query_async::<String>(&mut connection);
    let mut answer = std::pin::pin!(answer);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), answer.as_mut())
            .await
            .is_err()
    );
    server.cont();
    assert_eq!(answer.await.unwrap(), "PONG");
    server.cont();
}

#[tokio::test]
async fn a_killed_server_refuses_and_comes_back_empty_on_its_port() {
    let mut server = Server::start().await;
    let (url, pid) = (server.url(), server.pid());
    set(&url, "key").await;
    server.kill();
    assert!(TcpStream::connect(server.addr()).is_err());
    server.restart().await;
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.keys().await, Vec::<Vec<u8>>::new());
}

#[tokio::test]
async fn a_durable_server_comes_back_with_its_keys() {
    let mut server = Server::start_with(DURABLE).await;
    set(&server.url(), "key").await;
    server.restart().await;
    assert_eq!(server.keys().await, [b"key"]);
}

#[tokio::test]
async fn a_restart_waits_for_its_port() {
    let mut server = Server::start().await;
    server.kill();
    let taken = std::net::TcpListener::bind(server.addr()).unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(taken);
    };
    tokio::join!(server.restart(), release);
    assert!(answers(&server).await);
}

#[tokio::test]
async fn a_server_with_a_password_has_it_in_its_url() {
    let server = Server::start_with(&["--requirepass", "secret"]).await;
    assert!(server.url().contains("secret"));
    set(&server.url(), "key").await;
    let open = format!("redis://{}", server.addr());
    let client = redis::Client::open(open).unwrap();
    let mut connection = inspect::connect(&client).await.unwrap();
    let refused = redis::cmd("GET")
        .arg("key")
        .query_async::<()>(&mut connection)
        .await;
    assert_eq!(refused.unwrap_err().code(), Some("NOAUTH"));
}

#[tokio::test]
#[should_panic(expected = "redis-server ended")]
async fn a_server_that_can_not_start_says_why() {
    Server::start_with(&["--maxmemory", "nonsense"]).await;
}

#[tokio::test]
async fn a_dropped_server_is_gone_even_if_it_was_stopped() {
    let mut server = Server::start().await;
    let (addr, dir) = (server.addr(), server.dir().to_owned());
    server.stop();
    drop(server);
    assert!(TcpStream::connect(addr).is_err());
    assert!(!dir.exists());
}

/// Not a test: the process that the next tests start, and whose servers must not outlive it.
#[tokio::test]
#[ignore = "run by the tests of servers whose parent ends"]
async fn parent_of_a_server() {
    let Ok(end) = std::env::var("REDQUORUM_TEST_PARENT") else {
        return;
    };
    let mut server = Server::start().await;
    server.stop();
    println!("\nserver {} {}", server.addr(), server.dir().display());
    match end.as_str() {
        "exit" => std::process::exit(0),
        _ => std::future::pending().await,
    }
}

/// Starts this test program again, as the parent of a (stopped) server.
fn start_parent(end: &str) -> (std::process::Child, std::net::SocketAddr, PathBuf) {
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "parent_of_a_server", "--ignored", "--nocapture"])
        .env("REDQUORUM_TEST_PARENT", end)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find(|line| line.starts_with("server "))
        .unwrap();
    let mut words = line.split(' ').skip(1);
    let addr = words.next().unwrap().parse().unwrap();
    (parent, addr, words.next().unwrap().into())
}

async fn assert_gone(addr: std::net::SocketAddr, dir: PathBuf) {
    wait::eventually("the server is gone", SOON, async || {
        TcpStream::connect(addr).is_err()
    })
    .await;
    wait::eventually("its directory is gone", SOON, async || !dir.exists()).await;
}

#[tokio::test]
async fn a_server_does_not_outlive_a_killed_parent() {
    let (mut parent, addr, dir) = start_parent("never");
    assert!(TcpStream::connect(addr).is_ok() && dir.exists());
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert_gone(addr, dir).await;
}

#[tokio::test]
async fn a_server_does_not_outlive_a_parent_that_exits_without_dropping_it() {
    let (mut parent, addr, dir) = start_parent("exit");
    parent.wait().unwrap();
    assert_gone(addr, dir).await;
}

#[tokio::test]
async fn a_server_outlives_the_thread_that_started_it() {
    let start = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(Server::start())
    };
    let server = std::thread::spawn(start).join().unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(answers(&server).await);
}

#[tokio::test]
async fn a_fleet_is_several_independent_masters() {
    let mut fleet = Fleet::start(3).await;
    assert_eq!(fleet.len(), 3);
    set(&fleet[1].url(), "key").await;
    assert_eq!(
        fleet.get("key").await,
        [None, Some(b"value".to_vec()), None]
    );
    assert_eq!(
        fleet.keys_left().await,
        [vec![], vec![b"key".to_vec()], vec![]]
    );
    fleet[1].restart().await;
    assert_eq!(fleet.wait_until_no_keys(Duration::ZERO).await, Ok(()));
}

#[tokio::test]
async fn keys_that_are_left_are_named() {
    let fleet = Fleet::start(2).await;
    set(&fleet[1].url(), "left").await;
    let left = fleet.wait_until_no_keys(Duration::from_millis(20)).await;
    assert_eq!(left, Err(format!("{} has left", fleet[1].addr())));
}

#[tokio::test]
async fn keys_that_go_in_time_are_waited_for() {
    let fleet = Fleet::start(2).await;
    let expiring = redis::cmd("SET")
        .arg("key")
        .arg("value")
        .arg("PX")
        .arg(100)
        .to_owned();
    inspect::ask::<()>(&fleet[0].url(), &expiring).await;
    fleet.assert_no_keys(SOON).await;
}

#[tokio::test]
#[should_panic(expected = "is still held")]
async fn a_key_that_stays_is_not_free() {
    let fleet = Fleet::start(2).await;
    set(&fleet[1].url(), "key").await;
    fleet.assert_free("key", Duration::from_millis(20)).await;
}

#[tokio::test]
async fn a_wait_ends_with_the_condition_or_at_the_limit() {
    let start = Instant::now();
    let mut looks = 0;
    let third = async || {
        looks += 1;
        looks == 3
    };
    assert!(wait::until(SOON, third).await);
    assert!(start.elapsed() < SOON);
    assert!(!wait::until(Duration::from_millis(30), async || false).await);
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(
        wait::until_some(Duration::ZERO, async || Some(1)).await,
        Some(1)
    );
}
