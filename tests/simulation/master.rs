//! A simulated master: a server on a host of its own, with a clock of its own,
//! and with connections that fail in the ways that real ones do.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use turmoil::net::tcp::OwnedWriteHalf;
use turmoil::net::{TcpListener, TcpStream};

use super::dice::Dice;
use super::frame;
use super::ledger::now;
use super::server::{Call, Options, Server};
use super::world::World;

pub(crate) const PORT: u16 = 6379;

/// How often a server looks for keys that have expired.
const CYCLE: Duration = Duration::from_millis(100);

/// How a master's clock differs from the others'.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skew {
    pub(crate) offset: Duration,
    /// How much faster it runs than time.
    pub(crate) parts_per_million: i64,
}

impl Skew {
    /// The clock's time, in milliseconds.
    fn read(self, time: Duration) -> u64 {
        let micros = time.as_micros() as i64;
        let gained = micros * self.parts_per_million / 1_000_000;
        (self.offset.as_micros() as i64 + micros + gained) as u64 / 1000
    }
}

pub(crate) struct Master {
    pub(crate) index: usize,
    skew: Skew,
    world: Rc<World>,
    server: RefCell<Server>,
    up: Cell<bool>,
    stalled: Cell<bool>,
    /// Changes with each process.
    generation: Cell<u64>,
    wires: RefCell<BTreeMap<i64, Rc<Wire>>>,
    changed: Notify,
}

/// How a connection fails.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flaw {
    /// Requests are lost.
    pub(crate) deaf: bool,
    /// Replies are lost.
    pub(crate) mute: bool,
    pub(crate) delay: Duration,
}

/// The server's end of one connection.
struct Wire {
    client: i64,
    flaw: Cell<Flaw>,
    closed: Cell<bool>,
    ended: Cell<bool>,
    unread: RefCell<Vec<u8>>,
    requests: RefCell<VecDeque<(Instant, Vec<Vec<u8>>)>>,
    replies: RefCell<VecDeque<(Instant, Vec<u8>)>>,
    wake: Notify,
}

/// What a server that comes up again has kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Nothing,
    /// All but what is younger than this.
    AllBut(Duration),
    All,
}

impl Master {
    pub(crate) fn new(index: usize, skew: Skew, options: Options, world: &Rc<World>) -> Rc<Self> {
        let run_id = format!("run-{index}-0");
        // It has been up for a day.
        let started = skew.read(Duration::ZERO).saturating_sub(86_400_000);
        Rc::new(Self {
            index,
            skew,
            world: world.clone(),
            server: RefCell::new(Server::new(options, run_id, started)),
            up: Cell::new(true),
            stalled: Cell::new(false),
            generation: Cell::new(0),
            wires: RefCell::default(),
            changed: Notify::new(),
        })
    }

    pub(crate) fn name(index: usize) -> String {
        format!("m{index}")
    }

    /// Runs on the master's host, for ever.
    pub(crate) async fn run(self: Rc<Self>) -> turmoil::Result {
        loop {
            while !self.up.get() {
                self.changed.notified().await;
            }
            let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
            self.listen(&listener).await?;
        }
    }

    async fn listen(self: &Rc<Self>, listener: &TcpListener) -> turmoil::Result {
        let mut cycle = Instant::now() + CYCLE;
        while self.up.get() {
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                accepted = listener.accept() => {
                    let (stream, _) = accepted?;
                    let wire = self.connect();
                    tokio::task::spawn_local(self.clone().serve(wire, stream));
                }
                () = sleep_until(cycle) => {
                    cycle += CYCLE;
                    self.expire();
                }
            }
        }
        Ok(())
    }

    fn expire(&self) {
        if !self.stalled.get() {
            let time = self.skew.read(now());
            self.server.borrow_mut().expire(time);
            self.deliver_pushes();
        }
    }

    fn connect(&self) -> Rc<Wire> {
        let client = self.server.borrow_mut().connect();
        let wire = Rc::new(Wire::new(client));
        self.wires.borrow_mut().insert(client, wire.clone());
        wire
    }

    async fn serve(self: Rc<Self>, wire: Rc<Wire>, stream: TcpStream) {
        let generation = self.generation.get();
        self.talk(&wire, stream).await;
        if self.generation.get() == generation {
            self.server.borrow_mut().disconnect(wire.client);
            self.wires.borrow_mut().remove(&wire.client);
        }
    }

    async fn talk(&self, wire: &Wire, stream: TcpStream) {
        let (mut read, mut write) = stream.into_split();
        let mut buffer = [0; 4096];
        loop {
            self.work(wire);
            if wire.write_due(&mut write).await.is_err() || wire.is_over() {
                return;
            }
            let due = wire.next_due(self.stalled.get());
            tokio::select! {
                biased;
                () = wire.wake.notified() => {}
                count = read.read(&mut buffer), if !wire.ended.get() => match count {
                    Ok(count @ 1..) => wire.receive(&buffer[..count]),
                    _ => wire.ended.set(true),
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Executes what has arrived.
    fn work(&self, wire: &Wire) {
        while !self.stalled.get()
            && !wire.closed.get()
            && let Some(words) = wire.take_due()
        {
            let call = Call {
                client: wire.client,
                now: self.skew.read(now()),
            };
            let reply = self.server.borrow_mut().execute(call, &words);
            let resp3 = self.server.borrow().speaks_resp3(wire.client);
            wire.send(reply.encode(resp3));
            self.world.executed(self.index, wire.client, words, &reply);
            self.kill_the_killed();
            self.deliver_pushes();
        }
    }

    fn kill_the_killed(&self) {
        let killed = std::mem::take(&mut self.server.borrow_mut().killed);
        for client in killed {
            if let Some(wire) = self.wires.borrow().get(&client) {
                wire.close();
            }
        }
    }

    fn deliver_pushes(&self) {
        let pushes = std::mem::take(&mut self.server.borrow_mut().pushes);
        for (client, push) in pushes {
            if let Some(wire) = self.wires.borrow().get(&client) {
                wire.send(push);
                wire.wake.notify_one();
                self.world.told(self.index, client);
            }
        }
    }
}

/// What a nemesis can do, between the ticks.
impl Master {
    pub(crate) fn is_up(&self) -> bool {
        self.up.get()
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.server.borrow().options.durable
    }

    /// Ends the process: its connections end with it.
    pub(crate) fn kill(&self) {
        self.up.set(false);
        self.stalled.set(false);
        self.generation.set(self.generation.get() + 1);
        for wire in std::mem::take(&mut *self.wires.borrow_mut()).values() {
            wire.close();
        }
        self.changed.notify_one();
    }

    /// Starts the next process.
    pub(crate) fn start(&self, time: Duration, kept: Kept) {
        let now = self.skew.read(time);
        let mut server = self.server.borrow_mut();
        server.restart(format!("run-{}-{}", self.index, self.generation.get()), now);
        match kept {
            Kept::Nothing => server.store.clear(),
            Kept::AllBut(tail) => server
                .store
                .go_back_to(self.skew.read(time.saturating_sub(tail))),
            Kept::All => {}
        }
        self.up.set(true);
        self.changed.notify_one();
    }

    pub(crate) fn stall(&self) {
        self.stalled.set(true);
    }

    /// It goes on, with one connection or another first.
    pub(crate) fn resume(&self, dice: &mut Dice) {
        self.stalled.set(false);
        let wires = self.wires.borrow();
        let mut wires: Vec<_> = wires.values().map(|wire| (dice.number(), wire)).collect();
        wires.sort_by_key(|(first, _)| *first);
        for (_, wire) in wires {
            wire.wake.notify_one();
        }
    }

    pub(crate) fn flush_scripts(&self) {
        self.server.borrow_mut().flush_scripts();
    }

    /// Breaks some of the connections; says how many.
    pub(crate) fn spoil(&self, flaw: Flaw, mut which: impl FnMut() -> bool) -> usize {
        self.some_wires(|wire| {
            let chosen = which();
            if chosen {
                wire.flaw.set(flaw);
            }
            chosen
        })
    }

    /// No connection is slow any more.
    pub(crate) fn speed_up(&self) {
        for wire in self.wires.borrow().values() {
            let flaw = wire.flaw.get();
            let delay = Duration::ZERO;
            wire.flaw.set(Flaw { delay, ..flaw });
        }
    }

    /// Closes some of the connections; says how many.
    pub(crate) fn reset(&self, mut which: impl FnMut() -> bool) -> usize {
        self.some_wires(|wire| {
            let chosen = which();
            if chosen {
                wire.close();
            }
            chosen
        })
    }

    fn some_wires(&self, act: impl FnMut(&Wire) -> bool) -> usize {
        let wires = self.wires.borrow();
        let mut act = act;
        wires.values().filter(|wire| act(wire)).count()
    }

    /// The keys that live, with their values.
    pub(crate) fn keys(&self, time: Duration) -> Vec<String> {
        let now = self.skew.read(time);
        let server = self.server.borrow();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let living = server.store.living(now);
        living
            .map(|(key, entry)| {
                let left = entry.expires.map(|expires| expires - now);
                format!("{}={} for {left:?} ms", text(key), text(&entry.value))
            })
            .collect()
    }
}

impl Wire {
    fn new(client: i64) -> Self {
        Self {
            client,
            flaw: Cell::default(),
            closed: Cell::new(false),
            ended: Cell::new(false),
            unread: RefCell::default(),
            requests: RefCell::default(),
            replies: RefCell::default(),
            wake: Notify::new(),
        }
    }

    fn close(&self) {
        self.closed.set(true);
        self.wake.notify_one();
    }

    /// Whether it was closed, or the client has ended it and nothing of it is left.
    fn is_over(&self) -> bool {
        self.closed.get() || (self.ended.get() && self.requests.borrow().is_empty())
    }

    fn receive(&self, bytes: &[u8]) {
        if self.flaw.get().deaf {
            return;
        }
        let mut unread = self.unread.borrow_mut();
        unread.extend_from_slice(bytes);
        let mut requests = self.requests.borrow_mut();
        while let Some(words) = frame::take_request(&mut unread) {
            let due = self.due_after(requests.back());
            requests.push_back((due, words));
        }
    }

    fn send(&self, bytes: Vec<u8>) {
        if !self.flaw.get().mute {
            let mut replies = self.replies.borrow_mut();
            let due = self.due_after(replies.back());
            replies.push_back((due, bytes));
        }
    }

    /// Later than what came before.
    fn due_after<T>(&self, last: Option<&(Instant, T)>) -> Instant {
        let due = Instant::now() + self.flaw.get().delay;
        last.map_or(due, |(before, _)| due.max(*before))
    }

    fn take_due(&self) -> Option<Vec<Vec<u8>>> {
        let mut requests = self.requests.borrow_mut();
        let due = requests
            .front()
            .is_some_and(|(due, _)| *due <= Instant::now());
        due.then(|| requests.pop_front().map(|(_, words)| words))?
    }

    fn next_due(&self, stalled: bool) -> Option<Instant> {
        let requests = self.requests.borrow();
        let request = requests.front().filter(|_| !stalled).map(|(due, _)| *due);
        let reply = self.replies.borrow().front().map(|(due, _)| *due);
        request.into_iter().chain(reply).min()
    }

    fn take_due_replies(&self) -> Vec<u8> {
        let mut replies = self.replies.borrow_mut();
        let now = Instant::now();
        let mut bytes = Vec::new();
        while replies.front().is_some_and(|(due, _)| *due <= now) {
            bytes.extend(replies.pop_front().into_iter().flat_map(|(_, reply)| reply));
        }
        bytes
    }

    async fn write_due(&self, write: &mut OwnedWriteHalf) -> std::io::Result<()> {
        let bytes = self.take_due_replies();
        if bytes.is_empty() || self.closed.get() {
            return Ok(());
        }
        tokio::select! {
            biased;
            written = write.write_all(&bytes) => written,
            () = self.until_closed() => Ok(()),
        }
    }

    async fn until_closed(&self) {
        while !self.closed.get() {
            self.wake.notified().await;
        }
    }
}
