//! Tests of the faults that Docker makes: what a client sees of each, on both ways to a master.

mod support;

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use support::compose::{containers, cut, direct_url, pause};
use support::masters::shared;
use support::wait::eventually;

const A_WHILE: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_secs(10);

/// The second master: its address through the published port, and its own.
async fn ways() -> (String, SocketAddr, SocketAddr) {
    let address = |url: &str| url.strip_prefix("redis://").unwrap().parse().unwrap();
    let container = containers().swap_remove(1);
    let direct = address(&direct_url(&container));
    (container, address(&shared().await.urls()[1]), direct)
}

fn connect(addr: SocketAddr) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect_timeout(&addr, A_WHILE)?;
    stream.set_read_timeout(Some(A_WHILE))?;
    Ok(stream)
}

fn ping(mut stream: &TcpStream) -> Result<(), Error> {
    stream.write_all(b"PING\r\n")?;
    stream.read_exact(&mut [0; 7])
}

/// Whether nothing comes, neither an answer nor an end.
fn is_silent(result: Result<(), Error>) -> bool {
    result.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

async fn answers_again(addr: SocketAddr) {
    let answers = async || connect(addr).and_then(|stream| ping(&stream)).is_ok();
    eventually("it answers again", SOON, answers).await;
}

#[tokio::test]
#[ignore = "needs the containers of scripts/test-compose"]
async fn a_frozen_master_is_silent_and_goes_on() {
    let (container, published, direct) = ways().await;
    for addr in [published, direct] {
        let present = connect(addr).unwrap();
        ping(&present).unwrap();
        let fault = pause(&container);
        assert!(is_silent(ping(&present)));
        assert!(is_silent(ping(&connect(addr).unwrap())));
        fault.end();
        ping(&present).unwrap();
    }
}

#[tokio::test]
#[ignore = "needs the containers of scripts/test-compose"]
async fn a_cut_closes_and_refuses_what_comes_through_the_published_port() {
    let (container, published, _) = ways().await;
    let present = connect(published).unwrap();
    ping(&present).unwrap();
    let fault = cut(&container);
    let error = ping(&present).unwrap_err();
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
async fn a_cut_is_a_silent_partition_at_the_own_address() {
    let (container, _, direct) = ways().await;
    let mut present = connect(direct).unwrap();
    ping(&present).unwrap();
    let fault = cut(&container);
    assert!(is_silent(ping(&present)));
    assert!(is_silent(connect(direct).map(drop)));
    fault.end();
    // What was sent during the partition is answered after it.
    present.set_read_timeout(Some(SOON)).unwrap();
    present.read_exact(&mut [0; 7]).unwrap();
    answers_again(direct).await;
}

#[tokio::test]
#[ignore = "needs the containers of scripts/test-compose"]
async fn a_dropped_fault_ends() {
    let (container, published, _) = ways().await;
    drop(pause(&container));
    answers_again(published).await;
    drop(cut(&container));
    answers_again(published).await;
}
