//! Tests of the faults that Docker makes: what a client sees of each.

mod support;

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use support::compose::{containers, cut, kill, pause};
use support::inspect;
use support::masters::{shared, unique};
use support::wait::eventually;

const A_WHILE: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_secs(10);

/// The second master: its container, and its address.
async fn second() -> (String, SocketAddr) {
    let url = &shared().await.urls()[1];
    let address = url.strip_prefix("redis://").unwrap().parse().unwrap();
    (containers().swap_remove(1), address)
}

fn connect(addr: SocketAddr) -> Result<TcpStream, Error> {
    TcpStream::connect_timeout(&addr, A_WHILE)
}

fn ping(mut stream: &TcpStream, limit: Duration) -> Result<(), Error> {
    stream.write_all(b"PING\r\n")?;
    pong(stream, limit)
}

fn pong(mut stream: &TcpStream, limit: Duration) -> Result<(), Error> {
    stream.set_read_timeout(Some(limit))?;
    stream.read_exact(&mut [0; 7])
}

/// Whether nothing comes, neither an answer nor an end.
fn is_silent(result: Result<(), Error>) -> bool {
    result.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

async fn answers_again(addr: SocketAddr) {
    let answers = async || {
        connect(addr)
            .and_then(|stream| ping(&stream, A_WHILE))
            .is_ok()
    };
    eventually("it answers again", SOON, answers).await;
}

#[tokio::test]
#[ignore = "needs the containers of scripts/test-compose"]
async fn a_frozen_master_is_silent_and_goes_on() {
    let (container, addr) = second().await;
    let present = connect(addr).unwrap();
    ping(&present, SOON).unwrap();
    let fault = pause(&container);
    assert!(is_silent(ping(&present, A_WHILE)));
    assert!(is_silent(ping(&connect(addr).unwrap(), A_WHILE)));
    fault.end();
    ping(&present, SOON).unwrap();
}

#[tokio::test]
#[ignore = "needs the containers of scripts/test-compose"]
async fn a_cut_closes_and_refuses_what_comes_through_the_published_port() {
    let (container, published) = second().await;
    let present = connect(published).unwrap();
    ping(&present, SOON).unwrap();
    let fault = cut(&container);
    let error = ping(&present, SOON).unwrap_err();
    assert!(!is_silent(Err(error)));
    assert_eq!(
        connect(published).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
    fault.end();
    answers_again(published).await;
}

#[tokio::test]
#[ignore = "needs the containers of scripts/test-compose"]
async fn a_killed_master_starts_again_empty() {
    let (container, addr) = second().await;
    let url = format!("redis://{addr}");
    let key = unique("killed");
    inspect::ask::<()>(&url, redis::cmd("SET").arg(&key).arg(1)).await;
    let fault = kill(&container);
    assert!(
        connect(addr)
            .and_then(|stream| ping(&stream, A_WHILE))
            .is_err()
    );
    fault.end();
    answers_again(addr).await;
    assert_eq!(inspect::get(&url, &key).await, None);
}

#[tokio::test]
#[ignore = "needs the containers of scripts/test-compose"]
async fn a_dropped_fault_ends() {
    let (container, published) = second().await;
    drop(pause(&container));
    answers_again(published).await;
    drop(cut(&container));
    answers_again(published).await;
}
