//! A TCP proxy in front of one master that breaks what passes through it.
//!
//! It moves whole frames of the protocol, so that a single reply can be lost and a single command
//! held back. But it keeps to what TCP can do, where a stream has no gaps: once a connection has lost
//! something in one direction, that direction stays silent. Otherwise a client that matches replies
//! to requests by their order would take each reply for the one before it, which no network makes
//! happen.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::resp;
use super::server::free_port;

/// A proxy in front of one master. It closes all connections when it is dropped.
pub struct Proxy {
    addr: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

/// How one direction flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flow {
    /// At once.
    Pass,
    /// Each frame, and the end of the stream, this much later; pipelining is kept.
    Delay(Duration),
    /// Frames are read and dropped, and neither side sees the other one close. A connection that
    /// lost frames stays silent in this direction when others flow again.
    BlackHole,
    /// At so many bytes a second.
    Limit(usize),
}

impl Proxy {
    /// Starts a proxy that passes everything on to the master at `upstream`.
    pub async fn in_front_of(upstream: SocketAddr) -> Self {
        let (addr, listener) = loop {
            let addr = (upstream.ip(), free_port()).into();
            if let Ok(listener) = TcpListener::bind(addr).await {
                break (addr, listener);
            }
        };
        let state = Arc::new(State::new(upstream));
        let task = tokio::spawn(listen(state.clone(), listener));
        Self { addr, state, task }
    }

    /// The URL to give to a client.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// The address of the proxy.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets how requests flow from now on, on all connections.
    pub fn requests(&self, flow: Flow) {
        self.state.rules.send_modify(|rules| rules.requests = flow);
    }

    /// Sets how replies flow from now on, on all connections.
    pub fn replies(&self, flow: Flow) {
        self.state.rules.send_modify(|rules| rules.replies = flow);
    }

    /// Sets how both directions flow from now on, on all connections.
    pub fn both(&self, flow: Flow) {
        self.requests(flow);
        self.replies(flow);
    }

    /// Holds all requests back, and the end of the client's stream behind them: the master still
    /// gets them when they are [released](Self::release_held), even if the client has closed its
    /// connection since.
    pub fn hold_requests(&self) {
        self.state.rules.send_modify(|rules| rules.hold = Hold::All);
    }

    /// Holds back requests that have `word` (`SET`, a key, …) among their words, in any case, and
    /// what follows them on the same connection.
    pub fn hold_requests_with(&self, word: &str) {
        self.state
            .rules
            .send_modify(|rules| rules.hold = Hold::With(word.to_owned()));
    }

    /// Lets the withheld requests through, and all later ones.
    pub fn release_held(&self) {
        self.state
            .rules
            .send_modify(|rules| rules.hold = Hold::Nothing);
    }

    /// How many requests are in the proxy: held back, or not due yet.
    pub fn requests_waiting(&self) -> usize {
        Arc::strong_count(&self.state.waiting) - 1
    }

    /// Loses the `n`-th reply from now on (1 is the next), counted over all connections, and what
    /// follows it on its connection. Pushes are no replies.
    pub fn lose_reply(&self, n: usize) {
        self.tamper(Which::Nth(n), Instead::Silence);
    }

    /// Loses the next reply to a request that has `word` (`SET`, a key, …) among its words, in any
    /// case, and what follows it on its connection.
    pub fn lose_reply_to(&self, word: &str) {
        self.tamper(Which::To(word.to_owned()), Instead::Silence);
    }

    /// Breaks all connections at the time of that reply: the master did what was asked, and the
    /// client gets a reset for it.
    pub fn reset_at_reply_to(&self, word: &str) {
        self.tamper(Which::To(word.to_owned()), Instead::Reset);
    }

    /// Sends `bytes`, a frame or garbage, in the place of that reply.
    pub fn replace_reply_to(&self, word: &str, bytes: &[u8]) {
        self.tamper(Which::To(word.to_owned()), Instead::Bytes(bytes.to_vec()));
    }

    /// How often a reply was lost or replaced as asked for.
    pub fn replies_lost(&self) -> usize {
        self.state.lost.load(Ordering::SeqCst)
    }

    /// Breaks all connections now: both sides get a reset.
    pub fn reset(&self) {
        let _ = self.state.cuts.send(Cut::Reset);
    }

    /// Closes all connections to the master, and leaves the client's side open and silent.
    pub fn half_open(&self) {
        let _ = self.state.cuts.send(Cut::HalfOpen);
    }

    /// Refuses new connections, once this returns; the present ones go on.
    pub async fn refuse(&self) {
        self.listens(false).await;
        // A child that another thread is just starting has a copy of the closed listener until it
        // executes its program, and as long as that is open, connections are taken.
        while TcpStream::connect(self.addr).await.is_ok() {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Accepts new connections again, once this returns.
    pub async fn accept(&self) {
        self.listens(true).await;
    }

    /// How many connections were accepted since the start.
    pub fn connections(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// How many of them are open on either side.
    pub fn open_connections(&self) -> usize {
        Arc::strong_count(&self.state.open) - 1
    }

    fn tamper(&self, which: Which, instead: Instead) {
        let tamper = Tamper { which, instead };
        self.state.tampers.lock().unwrap().push(tamper);
    }

    async fn listens(&self, listen: bool) {
        self.state.rules.send_modify(|rules| rules.listen = listen);
        let mut listening = self.state.listening.subscribe();
        let _ = listening.wait_for(|listening| *listening == listen).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What all connections of a proxy share.
struct State {
    upstream: SocketAddr,
    rules: watch::Sender<Rules>,
    listening: watch::Sender<bool>,
    cuts: broadcast::Sender<Cut>,
    tampers: Mutex<Vec<Tamper>>,
    accepted: AtomicUsize,
    lost: AtomicUsize,
    /// Cloned for as long as a connection is open.
    open: Arc<()>,
    /// Cloned for as long as a request waits.
    waiting: Arc<()>,
}

struct Rules {
    requests: Flow,
    replies: Flow,
    hold: Hold,
    listen: bool,
}

enum Hold {
    Nothing,
    All,
    With(String),
}

#[derive(Clone, Copy)]
enum Cut {
    Reset,
    HalfOpen,
}

/// A reply to be replaced.
struct Tamper {
    which: Which,
    instead: Instead,
}

enum Which {
    Nth(usize),
    To(String),
}

enum Instead {
    Silence,
    Reset,
    Bytes(Vec<u8>),
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Requests,
    Replies,
}

/// A frame on its way; none is the end of the stream.
struct Parcel {
    due: Instant,
    frame: Option<Vec<u8>>,
    _waiting: Option<Arc<()>>,
}

/// The requests of one connection that have no reply yet.
type Unanswered = Mutex<VecDeque<Vec<u8>>>;

impl State {
    fn new(upstream: SocketAddr) -> Self {
        let (requests, replies) = (Flow::Pass, Flow::Pass);
        Self {
            upstream,
            rules: watch::Sender::new(Rules {
                requests,
                replies,
                hold: Hold::Nothing,
                listen: true,
            }),
            listening: watch::Sender::new(true),
            cuts: broadcast::Sender::new(16),
            tampers: Mutex::default(),
            accepted: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            open: Arc::default(),
            waiting: Arc::default(),
        }
    }

    fn flow(&self, direction: Direction) -> Flow {
        self.rules.borrow().flow(direction)
    }

    /// What is sent in the place of a reply, if one was asked for.
    fn tampered(&self, request: &[u8]) -> Option<Instead> {
        let mut tampers = self.tampers.lock().unwrap();
        // Not `position`, which would stop counting at the first hit.
        let hits: Vec<bool> = tampers
            .iter_mut()
            .map(|tamper| tamper.which.hits(request))
            .collect();
        let hit = hits.into_iter().position(|hit| hit)?;
        self.lost.fetch_add(1, Ordering::SeqCst);
        Some(tampers.remove(hit).instead)
    }

    async fn until(&self, condition: impl FnMut(&Rules) -> bool) {
        let _ = self.rules.subscribe().wait_for(condition).await;
    }
}

impl Rules {
    fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::Requests => self.requests,
            Direction::Replies => self.replies,
        }
    }
}

impl Hold {
    fn holds(&self, request: Option<&[u8]>) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::With(word) => request.is_some_and(|request| has_word(request, word)),
        }
    }
}

impl Which {
    /// Whether this is the reply; called once for each.
    fn hits(&mut self, request: &[u8]) -> bool {
        match self {
            Self::Nth(n) => {
                *n = n.saturating_sub(1);
                *n == 0
            }
            Self::To(word) => has_word(request, word),
        }
    }
}

fn has_word(request: &[u8], word: &str) -> bool {
    resp::words(request)
        .iter()
        .any(|other| other.eq_ignore_ascii_case(word.as_bytes()))
}

/// Accepts connections, except while they are refused: then there is no listener at all.
async fn listen(state: Arc<State>, first: TcpListener) {
    let addr = first.local_addr().expect("a bound socket");
    let mut connections = JoinSet::new();
    let mut rules = state.rules.subscribe();
    let mut listener = Some(first);
    loop {
        let open = match listener.take() {
            Some(listener) => listener,
            None => TcpListener::bind(addr).await.expect("the proxy's own port"),
        };
        state.listening.send_replace(true);
        tokio::select! {
            () = accept(&state, &open, &mut connections) => {}
            _ = rules.wait_for(|rules| !rules.listen) => {}
        }
        drop(open);
        state.listening.send_replace(false);
        let _ = rules.wait_for(|rules| rules.listen).await;
    }
}

async fn accept(state: &Arc<State>, listener: &TcpListener, connections: &mut JoinSet<()>) {
    loop {
        let (client, _) = listener.accept().await.expect("a listening socket");
        while connections.try_join_next().is_some() {}
        state.accepted.fetch_add(1, Ordering::SeqCst);
        connections.spawn(serve(state.clone(), client));
    }
}

/// One connection, from its start to its end.
async fn serve(state: Arc<State>, mut client: TcpStream) {
    let _open = state.open.clone();
    let mut cuts = state.cuts.subscribe();
    let Ok(mut master) = TcpStream::connect(state.upstream).await else {
        return reset(&client);
    };
    let _ = (client.set_nodelay(true), master.set_nodelay(true));
    tokio::select! {
        () = forward(&state, &mut client, &mut master) => return,
        cut = cuts.recv() => if let Ok(Cut::Reset) = cut {
            reset(&client);
            return reset(&master);
        },
    }
    drop(master);
    tokio::select! {
        () = swallow(&mut client) => {}
        _ = cuts.recv() => reset(&client),
    }
}

/// Makes the socket send a reset, rather than an orderly end, when it is dropped.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

async fn swallow(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    while !matches!(stream.read(&mut bytes).await, Ok(0) | Err(_)) {}
}

/// Forwards in both directions until the master has closed the connection. A client that closes its
/// end does not end it: what it sent may still be held back.
async fn forward(state: &State, client: &mut TcpStream, master: &mut TcpStream) {
    let unanswered = Unanswered::default();
    let (from_client, to_client) = client.split();
    let (from_master, to_master) = master.split();
    let requests = pump(
        state,
        Direction::Requests,
        &unanswered,
        from_client,
        to_master,
    );
    let replies = pump(
        state,
        Direction::Replies,
        &unanswered,
        from_master,
        to_client,
    );
    tokio::select! {
        ((), ()) = async { (requests.await, std::future::pending().await) } => {}
        () = replies => {}
    }
}

/// Moves one direction, until its end is delivered.
async fn pump(
    state: &State,
    direction: Direction,
    unanswered: &Unanswered,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
) {
    let (queue, queued) = mpsc::unbounded_channel();
    tokio::join!(
        collect(state, direction, unanswered, from, queue),
        deliver(state, direction, unanswered, queued, to),
    );
}

/// Reads frames and gives each one the time at which it is due.
async fn collect(
    state: &State,
    direction: Direction,
    unanswered: &Unanswered,
    mut from: impl AsyncRead + Unpin,
    queue: mpsc::UnboundedSender<Parcel>,
) {
    let send = |flow: Flow, frame: Option<Vec<u8>>| {
        let delay = if let Flow::Delay(delay) = flow {
            delay
        } else {
            Duration::ZERO
        };
        let _waiting = (direction == Direction::Requests).then(|| state.waiting.clone());
        let _ = queue.send(Parcel {
            due: Instant::now() + delay,
            frame,
            _waiting,
        });
    };
    let mut buffer = Vec::new();
    let mut has_gap = false;
    while !matches!(from.read_buf(&mut buffer).await, Ok(0) | Err(_)) {
        while let Some(frame) = resp::take_frame(&mut buffer) {
            let frame = match direction {
                Direction::Requests => Some(frame),
                Direction::Replies => answer(state, unanswered, frame),
            };
            let flow = state.flow(direction);
            match frame {
                Some(frame) if !has_gap && flow != Flow::BlackHole => send(flow, Some(frame)),
                _ => has_gap = true,
            }
        }
    }
    send(state.flow(direction), None);
}

/// What the client gets for one frame of the master's, if anything.
fn answer(state: &State, unanswered: &Unanswered, frame: Vec<u8>) -> Option<Vec<u8>> {
    if resp::is_push(&frame) {
        return Some(frame);
    }
    let request = unanswered.lock().unwrap().pop_front().unwrap_or_default();
    match state.tampered(&request) {
        None => Some(frame),
        Some(Instead::Bytes(bytes)) => Some(bytes),
        Some(Instead::Silence) => None,
        Some(Instead::Reset) => {
            let _ = state.cuts.send(Cut::Reset);
            None
        }
    }
}

/// Writes each frame when it is due, and then the end of the stream.
async fn deliver(
    state: &State,
    direction: Direction,
    unanswered: &Unanswered,
    mut queued: mpsc::UnboundedReceiver<Parcel>,
    mut to: impl AsyncWrite + Unpin,
) {
    while let Some(Parcel {
        due,
        frame,
        _waiting,
    }) = queued.recv().await
    {
        // The timer would hold back by up to a millisecond what is due at once.
        if due > Instant::now() {
            sleep_until(due).await;
        }
        if direction == Direction::Requests {
            state
                .until(|rules| !rules.hold.holds(frame.as_deref()))
                .await;
        }
        let Some(frame) = frame else { break };
        if direction == Direction::Requests {
            unanswered.lock().unwrap().push_back(frame.clone());
        }
        write(state.flow(direction), &frame, &mut to).await;
    }
    state
        .until(|rules| rules.flow(direction) != Flow::BlackHole)
        .await;
    let _ = to.shutdown().await;
}

/// Writes one frame; if the other side is gone, its bytes are too.
async fn write(flow: Flow, frame: &[u8], to: &mut (impl AsyncWrite + Unpin)) {
    let Flow::Limit(rate) = flow else {
        return to.write_all(frame).await.unwrap_or_default();
    };
    for piece in frame.chunks(rate.div_ceil(100)) {
        let _ = to.write_all(piece).await;
        sleep(Duration::from_secs_f64(piece.len() as f64 / rate as f64)).await;
    }
}
