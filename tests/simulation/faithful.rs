//! The simulated server against a real one: the same commands, the same replies
//! and the same pushes.

use std::ops::Range;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::frame::Reply;
use super::server::{Call, Options, Server};
use super::support::{resp, server};

const RELEASE: &str = include_str!("../../src/master/scripts/release.lua");
const EXTEND: &str = include_str!("../../src/master/scripts/extend.lua");

const TAKE: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'NX')";
const READ: &str = "return redis.call('GET', KEYS[1])";

/// Long enough for a time to live of some milliseconds to be over.
const A_WHILE: Duration = Duration::from_millis(40);

/// By how much the times to live of the two may differ, in milliseconds.
const TOLERANCE: u64 = 500;

const CONNECTIONS: usize = 3;
const KEYS: [&str; 2] = ["r0", "r1"];
const VALUES: [&str; 2] = ["token-a", "token-b"];

/// A command of one of the connections, and whether time passes after it.
#[derive(Clone, Debug)]
struct Step {
    connection: usize,
    words: Vec<String>,
    then_waits: bool,
}

#[test]
fn the_simulated_server_does_what_a_real_one_does() {
    let runtime = Runtime::new().expect("a runtime");
    // When it looks for keys that are over is its own affair.
    let debug = ["--enable-debug-command", "yes"];
    let real = runtime.block_on(server::Server::start_with(&debug));
    let mut runner = TestRunner::new(Config {
        cases: 100,
        failure_persistence: None,
        ..Config::default()
    });
    let compared = runner.run(&proptest::collection::vec(step(), 1..40), |steps| {
        runtime.block_on(compare(&real, &steps))
    });
    compared.expect("they do the same");
}

fn step() -> impl Strategy<Value = Step> {
    let connection = 0..CONNECTIONS;
    (connection, command()).prop_map(|(connection, (words, then_waits))| Step {
        connection,
        words,
        then_waits,
    })
}

fn command() -> impl Strategy<Value = (Vec<String>, bool)> {
    prop_oneof![
        5 => plain().prop_map(|words| (words, false)),
        3 => scripted().prop_map(|words| (words, false)),
        1 => brief().prop_map(|words| (words, true)),
        1 => wrong().prop_map(|words| (words, false)),
    ]
}

fn key() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&KEYS)
}

fn value() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&VALUES)
}

fn millis(range: Range<u32>) -> impl Strategy<Value = String> {
    range.prop_map(|millis| millis.to_string())
}

/// So long that it isn't over before the case is.
fn long() -> impl Strategy<Value = String> {
    millis(20_000..60_000)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn plain() -> impl Strategy<Value = Vec<String>> {
    let set = (key(), value(), long());
    let if_absent = (key(), value(), long());
    prop_oneof![
        set.prop_map(|(key, value, ttl)| words(&["SET", key, value, "PX", &ttl])),
        if_absent.prop_map(|(key, value, ttl)| words(&["SET", key, value, "NX", "PX", &ttl])),
        (key(), value()).prop_map(|(key, value)| words(&["SET", key, value, "NX"])),
        key().prop_map(|key| words(&["GET", key])),
        key().prop_map(|key| words(&["DEL", key, "r1"])),
        (key(), long()).prop_map(|(key, ttl)| words(&["PEXPIRE", key, &ttl])),
        key().prop_map(|key| words(&["PEXPIRE", key, "-1"])),
        key().prop_map(|key| words(&["PTTL", key])),
        Just(words(&["PING"])),
        Just(words(&["CLIENT", "KILL", "ID", "999999"])),
    ]
}

fn scripted() -> impl Strategy<Value = Vec<String>> {
    let hash = |script| redis::Script::new(script).get_hash().to_owned();
    let (release, extend) = (hash(RELEASE), hash(EXTEND));
    let by_hash = move |extends| if extends { &extend } else { &release }.clone();
    let whole = |extends| if extends { EXTEND } else { RELEASE };
    prop_oneof![
        (key(), value(), long(), any::<bool>()).prop_map(move |(key, value, ttl, extends)| words(
            &["EVAL", whole(extends), "1", key, value, &ttl]
        )),
        (key(), value(), long(), any::<bool>()).prop_map(move |(key, value, ttl, extends)| words(
            &["EVALSHA", &by_hash(extends), "1", key, value, &ttl]
        )),
        any::<bool>().prop_map(move |extends| words(&["SCRIPT", "LOAD", whole(extends)])),
        Just(words(&["SCRIPT", "FLUSH"])),
        (key(), value()).prop_map(|(key, value)| words(&["EVAL", TAKE, "1", key, value])),
        key().prop_map(|key| words(&["EVAL", READ, "1", key])),
        Just(words(&["EVAL", "return ARGV[1]", "0", "7"])),
        Just(words(&["EVAL", "return 7.9", "0"])),
        Just(words(&["EVAL", "return true", "0"])),
    ]
}

/// Commands after which a key is over in a moment. In less than some milliseconds a
/// real server that is held up finds it over while it still executes the command.
fn brief() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        (key(), value(), millis(10..20))
            .prop_map(|(key, value, ttl)| words(&["SET", key, value, "PX", &ttl])),
        (key(), millis(10..20)).prop_map(|(key, ttl)| words(&["PEXPIRE", key, &ttl])),
        (key(), value(), millis(10..20))
            .prop_map(|(key, value, ttl)| words(&["EVAL", EXTEND, "1", key, value, &ttl])),
    ]
}

fn wrong() -> impl Strategy<Value = Vec<String>> {
    let wrong: Vec<Vec<String>> = [
        &["SET", "r0"][..],
        &["SET", "r0", "token-a", "PX"],
        &["SET", "r0", "token-a", "PX", "0"],
        &["SET", "r0", "token-a", "PX", "soon"],
        &["SET", "r0", "token-a", "MAYBE"],
        &["GET"],
        &["PEXPIRE", "r0", "soon"],
        &["EVAL", "return", "2", "r0"],
        &["EVAL", "return", "-1", "r0"],
        &["EVAL", "return", "some"],
        &["EVAL", "no script", "0"],
        &["EVAL", EXTEND, "1", "r0", "token-a", "soon"],
        &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
        &["NONSENSE", "r0"],
    ]
    .into_iter()
    .map(words)
    .collect();
    proptest::sample::select(wrong)
}

async fn compare(real: &server::Server, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(real).await;
    for step in steps {
        let (real, simulated) = pair.both(step).await;
        prop_assert!(
            alike(&step.words, &real, &simulated),
            "{:?}: {:?} and not {:?}",
            step,
            text(&real),
            text(&simulated)
        );
    }
    let (real, simulated) = pair.pushes().await;
    prop_assert_eq!(real, simulated);
    Ok(())
}

/// A real server and a simulated one, with as many connections.
struct Pair {
    began: Instant,
    connections: Vec<Connection>,
    simulated: Server,
    clients: Vec<i64>,
}

struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
    pushes: Vec<Vec<u8>>,
}

impl Pair {
    async fn new(real: &server::Server) -> Self {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection::to(real).await);
        }
        for command in [
            &["DEBUG", "SET-ACTIVE-EXPIRE", "0"][..],
            &["FLUSHALL"],
            &["SCRIPT", "FLUSH"],
        ] {
            connections[0].ask(&words(command)).await;
        }
        let mut simulated = Server::new(Options::default(), "simulated".to_owned(), 0);
        let clients = (0..CONNECTIONS).map(|_| simulated.connect()).collect();
        let mut pair = Self {
            began: Instant::now(),
            connections,
            simulated,
            clients,
        };
        // The last one speaks RESP2 and is told nothing.
        for connection in 0..CONNECTIONS - 1 {
            pair.prepare(connection).await;
        }
        pair
    }

    async fn prepare(&mut self, connection: usize) {
        for command in [&["HELLO", "3"][..], &["CLIENT", "TRACKING", "ON", "NOLOOP"]] {
            self.both(&Step {
                connection,
                words: words(command),
                then_waits: false,
            })
            .await;
        }
    }

    /// What both reply.
    async fn both(&mut self, step: &Step) -> (Vec<u8>, Vec<u8>) {
        let real = self.connections[step.connection].ask(&step.words).await;
        let call = Call {
            client: self.clients[step.connection],
            now: self.now(),
        };
        let bytes: Vec<Vec<u8>> = step.words.iter().map(|word| word.clone().into()).collect();
        let reply = self.simulated.execute(call, &bytes);
        let simulated = reply.encode(self.simulated.speaks_resp3(call.client));
        if step.then_waits {
            tokio::time::sleep(A_WHILE).await;
        }
        (real, simulated)
    }

    fn now(&self) -> u64 {
        1_000_000 + self.began.elapsed().as_millis() as u64
    }

    /// A key that is over is found when it is looked for, if not before: in both, or
    /// only one of them tells of it.
    async fn look_for_keys_that_are_over(&mut self) {
        for key in KEYS {
            self.both(&Step {
                connection: CONNECTIONS - 1,
                words: words(&["GET", key]),
                then_waits: false,
            })
            .await;
        }
    }

    /// What both have told each connection.
    async fn pushes(&mut self) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        self.look_for_keys_that_are_over().await;
        let mut real = Vec::new();
        let mut simulated = Vec::new();
        for (connection, client) in self.connections.iter_mut().zip(&self.clients) {
            connection.ask(&words(&["PING"])).await;
            real.push(connection.pushes.iter().map(|push| text(push)).collect());
            let pushes = self.simulated.pushes.iter();
            let own = pushes.filter(|(to, _)| to == client);
            simulated.push(own.map(|(_, push)| text(push)).collect());
        }
        (real, simulated)
    }
}

impl Connection {
    async fn to(real: &server::Server) -> Self {
        let stream = TcpStream::connect(real.addr()).await;
        Self {
            stream: stream.expect("the server listens"),
            unread: Vec::new(),
            pushes: Vec::new(),
        }
    }

    /// Asks the real server, and reads its reply; keeps the pushes before it.
    async fn ask(&mut self, words: &[String]) -> Vec<u8> {
        let words = words.iter().map(|word| Reply::bulk(word));
        let request = Reply::Array(words.collect()).encode(false);
        let sent = self.stream.write_all(&request).await;
        sent.expect("the server reads");
        loop {
            while let Some(frame) = resp::take_frame(&mut self.unread) {
                match resp::is_push(&frame) {
                    true => self.pushes.push(frame),
                    false => return frame,
                }
            }
            let read = self.stream.read_buf(&mut self.unread).await;
            assert_ne!(read.expect("the server writes"), 0, "it closed");
        }
    }
}

/// Whether two replies mean the same: errors have the same code, and times to live
/// are about the same.
fn alike(words: &[String], real: &[u8], simulated: &[u8]) -> bool {
    match (real.first(), simulated.first()) {
        (Some(b'-'), Some(b'-')) => code(real) == code(simulated),
        (Some(b':'), Some(b':')) if words[0] == "PTTL" => {
            let (real, simulated) = (number(real), number(simulated));
            real.signum() == simulated.signum() && real.abs_diff(simulated) < TOLERANCE
        }
        // Its fields are too many to be simulated.
        _ if words[0] == "HELLO" => true,
        _ => real == simulated,
    }
}

fn code(error: &[u8]) -> String {
    let text = text(error);
    text.split([' ', '\r'])
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn number(reply: &[u8]) -> i64 {
    let text = text(reply);
    text[1..].trim_end().parse().expect("a number")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
