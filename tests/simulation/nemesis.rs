//! Makes faults, as the seed has it, and ends them.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use turmoil::Sim;

use super::client;
use super::dice::Dice;
use super::master::{Flaw, Kept, Master};
use super::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of a master.
    Kill,
    /// Of a client's process.
    Crash,
    Stall,
    Partition,
    Hold,
    LoseRequests,
    LoseReplies,
    HalfOpen,
    Delay,
    Reset,
    FlushScripts,
}

const ALL: [Kind; 11] = [
    Kind::Kill,
    Kind::Crash,
    Kind::Stall,
    Kind::Partition,
    Kind::Hold,
    Kind::LoseRequests,
    Kind::LoseReplies,
    Kind::HalfOpen,
    Kind::Delay,
    Kind::Reset,
    Kind::FlushScripts,
];

impl Kind {
    /// Some of them: a few faults at a time find more than all at once.
    pub(crate) fn some(dice: &mut Dice) -> Vec<Self> {
        let share = *dice.pick(&[20, 50, 80]);
        ALL.into_iter().filter(|_| dice.chance(share)).collect()
    }
}

pub(crate) struct Nemesis {
    world: Rc<World>,
    masters: Vec<Rc<Master>>,
    dice: Dice,
    next: Duration,
    /// What ends faults, and when.
    ends: Vec<(Duration, End)>,
    /// Clients and masters that can't reach each other.
    cut: BTreeSet<(usize, usize)>,
    stalled: BTreeSet<usize>,
    crashed: BTreeSet<usize>,
    /// Memory was lost, of a master or a client: keys may stay that nobody holds.
    pub(crate) memory_was_lost: bool,
}

#[derive(Clone, Copy)]
enum End {
    Start(usize, Kept),
    Resume(usize),
    Repair(usize, usize),
    Release(usize, usize),
    Begin(usize),
}

impl Nemesis {
    pub(crate) fn new(world: &Rc<World>, masters: &[Rc<Master>]) -> Self {
        let mut dice = Dice::of(world.setting.seed ^ 0x6e65_6d65_7369_7300);
        Self {
            next: dice.millis(0, world.setting.peace),
            world: world.clone(),
            masters: masters.to_vec(),
            dice,
            ends: Vec::new(),
            cut: BTreeSet::new(),
            stalled: BTreeSet::new(),
            crashed: BTreeSet::new(),
            memory_was_lost: false,
        }
    }

    /// Does what is due by now, until the time of faults is over.
    pub(crate) fn act(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        self.end_those(now, sim, |due| due <= now);
        if now < self.next || self.world.setting.faults.is_empty() {
            return;
        }
        self.next = now + self.dice.millis(1, self.world.setting.peace);
        let kind = *self.dice.pick(&self.world.setting.faults);
        self.begin(kind, now, sim);
    }

    /// Ends all faults. Connections that lose what is sent stay so: clients have
    /// to notice, and to connect again.
    pub(crate) fn end_all(&mut self, sim: &mut Sim<'_>) {
        for master in &self.masters {
            master.speed_up();
        }
        self.end_those(sim.elapsed(), sim, |_| true);
        self.tell(sim.elapsed(), format_args!("all faults have ended"));
    }

    fn begin(&mut self, kind: Kind, now: Duration, sim: &mut Sim<'_>) {
        let index = self.dice.index(self.masters.len());
        let master = self.masters[index].clone();
        if !master.is_up() {
            return;
        }
        match kind {
            Kind::Kill => self.kill(&master, now),
            Kind::Crash => self.crash(now, sim),
            Kind::Stall => self.stall(&master, now),
            Kind::Partition | Kind::Hold => self.cut(kind, index, now, sim),
            Kind::FlushScripts => {
                master.flush_scripts();
                self.tell(now, format_args!("m{index} loses its scripts"));
            }
            Kind::Reset => {
                let share = self.share();
                let dice = &mut self.dice;
                let count = master.reset(|| dice.chance(share));
                self.tell(now, format_args!("m{index} closes {count} connections"));
            }
            Kind::LoseRequests | Kind::LoseReplies | Kind::HalfOpen | Kind::Delay => {
                let flaw = self.flaw(kind);
                let share = self.share();
                let dice = &mut self.dice;
                let count = master.spoil(flaw, || dice.chance(share));
                self.tell(
                    now,
                    format_args!("m{index} has {count} connections: {flaw:?}"),
                );
            }
        }
    }

    fn share(&mut self) -> u64 {
        *self.dice.pick(&[30, 60, 100])
    }

    fn flaw(&mut self, kind: Kind) -> Flaw {
        Flaw {
            deaf: matches!(kind, Kind::LoseRequests | Kind::HalfOpen),
            mute: matches!(kind, Kind::LoseReplies | Kind::HalfOpen),
            delay: match kind {
                Kind::Delay => {
                    let longest = *self.dice.pick(&[50, 50, 1000, 5000]);
                    self.dice.millis(1, longest)
                }
                _ => Duration::ZERO,
            },
        }
    }

    fn kill(&mut self, master: &Master, now: Duration) {
        master.kill();
        let kept = match (master.is_durable(), self.dice.chance(50)) {
            (true, _) => Kept::All,
            (false, true) => Kept::Nothing,
            (false, false) => Kept::AllBut(self.dice.millis(0, 1000)),
        };
        self.memory_was_lost |= !master.is_durable();
        let down = self.dice.millis(0, 1000);
        self.ends.push((now + down, End::Start(master.index, kept)));
        self.tell(
            now,
            format_args!("m{} is killed for {down:?}: keeps {kept:?}", master.index),
        );
        self.world.saw(match kept {
            Kept::Nothing => "a master came up empty",
            Kept::AllBut(_) => "a master came up without the last of its keys",
            Kept::All => "a master came up with all its keys",
        });
    }

    fn crash(&mut self, now: Duration, sim: &mut Sim<'_>) {
        let client = self.dice.index(self.world.setting.clients);
        if self.crashed.insert(client) {
            self.world.crashes(client);
            sim.crash(&*client::name(client));
            self.memory_was_lost = true;
            let down = self.dice.millis(1, 1000);
            self.ends.push((now + down, End::Begin(client)));
            self.tell(now, format_args!("c{client} crashes, for {down:?}"));
            self.world.saw("a client crashed");
        }
    }

    fn stall(&mut self, master: &Master, now: Duration) {
        if self.stalled.insert(master.index) {
            master.stall();
            let pause = self.dice.millis(1, 1500);
            self.ends.push((now + pause, End::Resume(master.index)));
            self.tell(now, format_args!("m{} stops for {pause:?}", master.index));
        }
    }

    fn cut(&mut self, kind: Kind, master: usize, now: Duration, sim: &mut Sim<'_>) {
        let client = self.dice.index(self.world.setting.clients);
        if !self.cut.insert((client, master)) {
            return;
        }
        let (from, to) = (client::name(client), Master::name(master));
        let pause = self.dice.millis(1, 1500);
        let end = if kind == Kind::Hold {
            sim.hold(&*from, &*to);
            End::Release(client, master)
        } else {
            match self.dice.below(3) {
                0 => sim.partition(&*from, &*to),
                1 => sim.partition_oneway(&*from, &*to),
                _ => sim.partition_oneway(&*to, &*from),
            }
            End::Repair(client, master)
        };
        self.ends.push((now + pause, end));
        self.tell(
            now,
            format_args!("{kind:?} of {from} and {to} for {pause:?}"),
        );
    }

    fn end_those(&mut self, now: Duration, sim: &mut Sim<'_>, which: impl Fn(Duration) -> bool) {
        let (over, going_on) = self.ends.drain(..).partition(|(due, _)| which(*due));
        self.ends = going_on;
        for (_, end) in over {
            self.end(end, now, sim);
        }
    }

    fn end(&mut self, end: End, now: Duration, sim: &mut Sim<'_>) {
        match end {
            End::Start(master, kept) => {
                self.masters[master].start(now, kept);
                self.tell(now, format_args!("m{master} comes up"));
            }
            End::Resume(master) => {
                self.stalled.remove(&master);
                self.masters[master].resume(&mut self.dice);
                self.tell(now, format_args!("m{master} goes on"));
            }
            End::Repair(client, master) => {
                self.cut.remove(&(client, master));
                sim.repair(&*client::name(client), &*Master::name(master));
                self.tell(now, format_args!("c{client} reaches m{master} again"));
            }
            End::Begin(client) => {
                self.crashed.remove(&client);
                sim.bounce(&*client::name(client));
                self.tell(now, format_args!("c{client} begins anew"));
            }
            End::Release(client, master) => {
                self.cut.remove(&(client, master));
                sim.release(&*client::name(client), &*Master::name(master));
                self.tell(
                    now,
                    format_args!("what was held of c{client} and m{master} arrives"),
                );
            }
        }
    }

    fn tell(&self, now: Duration, text: fmt::Arguments<'_>) {
        self.world.tell(now, format_args!("--- {text}"));
    }
}
