//! What a client does: the library's driver around the core, which decides.

use redquorum::core::{
    AcquireRound, AcquireVerdict, ExtendRound, ExtendVerdict, Lease, LeaseLoss, Refusal,
    ReleaseRound, ReleaseVerdict, Vote,
};

use super::ballot::{NOW, millis, ticks};
use super::client::Phase;
use super::event::Event;
use super::link::{Answer, Voted};
use super::promise::Promise;
use super::request::{Kind, Request};
use super::setting::Mutation;
use super::step::Step;

impl<const N: usize> Step<'_, N> {
    /// Begins a round with a fresh token (S4): asks all masters at once.
    pub(crate) fn begin(&mut self, client: usize) {
        let me = &mut self.world.clients[client];
        me.round += 1;
        me.phase = Phase::Taking { elapsed: 0 };
        let round = me.round;
        for master in 0..N {
            self.link(client, master).forgot = false;
        }
        self.ask_all(client, Kind::Take, round, 0);
    }

    /// Asks all masters to extend the key. They may shorten their TTL as soon
    /// as they are asked (S10).
    pub(crate) fn extend(&mut self, client: usize) {
        let terms = self.ballot.terms[client];
        let me = &mut self.world.clients[client];
        let held = Lease::until(NOW.after(millis(me.validity())));
        let old = held.shorter(terms.lease(NOW));
        me.extension += 1;
        me.phase = Phase::Extending {
            left: ticks(old.validity(NOW)),
            elapsed: 0,
        };
        let (round, extension) = (me.round, me.extension);
        self.ask_all(client, Kind::Extend, round, extension);
    }

    /// The owner's release: nothing of the lock is relied on any more.
    pub(crate) fn release(&mut self, client: usize) {
        let me = &mut self.world.clients[client];
        let round = me.round;
        me.phase = match self.setting.confirms {
            true => Phase::Releasing {
                left: me.validity(),
            },
            false => Phase::Idle,
        };
        self.ask_all(client, Kind::Release, round, 0);
    }

    /// Releases a round that was lost on all masters, whatever they answered or
    /// will (S5, S6, S8).
    pub(crate) fn give_up(&mut self, client: usize) {
        let round = self.world.clients[client].round;
        let to_granted = self.setting.is(Mutation::ReleaseToGranted);
        for column in &mut self.world.columns {
            let link = &mut column.links[client];
            if !to_granted || link.has_counted(Voted::Yes) {
                link.requests.push(Request::release(round));
            }
        }
        self.rest(client);
    }

    /// Gives the key back to the masters that are known to have lost it (S9).
    pub(crate) fn reseed(&mut self, client: usize) {
        let me = self.world.clients[client];
        for master in 0..N {
            if self.link(client, master).has_counted(Voted::No) {
                self.send_seed(client, master);
            }
        }
        self.hold(client, me.validity(), false);
    }

    fn send_seed(&mut self, client: usize, master: usize) {
        let request = Request {
            kind: Kind::Reseed,
            round: self.world.clients[client].round,
            extension: 0,
        };
        self.link(client, master).requests.push(request);
    }

    pub(crate) fn ask_all(&mut self, client: usize, kind: Kind, round: u8, extension: u8) {
        self.world.forget_answers(client);
        self.send_to_all(
            client,
            Request {
                kind,
                round,
                extension,
            },
        );
    }

    fn rest(&mut self, client: usize) {
        self.world.forget_answers(client);
        self.world.clients[client].phase = Phase::Idle;
    }

    pub(crate) fn hold(&mut self, client: usize, left: u8, reseeding: bool) {
        self.world.clients[client].phase = Phase::Held { left, reseeding };
        if !reseeding {
            self.world.forget_answers(client);
        }
    }

    /// Whether the client waits for the answer to this request.
    pub(crate) fn is_awaited(&self, client: usize, master: usize, request: Request) -> bool {
        let me = &self.world.clients[client];
        if request.round != me.round {
            return false;
        }
        match (request.kind, me.phase) {
            (Kind::Take, Phase::Taking { .. }) => true,
            // A master that knows the fencing token already is not waited for.
            (Kind::Raise, Phase::Fencing { .. }) => !matches!(
                self.world.columns[master].links[client].answer,
                Answer::Counted(_)
            ),
            (Kind::Extend, Phase::Extending { .. })
            | (
                Kind::Extend,
                Phase::Held {
                    reseeding: true, ..
                },
            ) => request.extension == me.extension,
            (Kind::Release, Phase::Releasing { .. }) => true,
            _ => false,
        }
    }

    /// Processes the answer of a master.
    pub(crate) fn hear(&mut self, client: usize, master: usize) {
        let Answer::Sent(voted) = self.link(client, master).answer else {
            return;
        };
        let seat = self.ballot.seat(&self.world, client, master);
        match self.world.clients[client].phase {
            Phase::Taking { elapsed } => {
                let mut round = self.ballot.acquire(&self.world, client, elapsed);
                self.link(client, master).answer = Answer::Counted(voted);
                round.vote(seat, voted.into(), NOW);
                self.conclude_round(client, elapsed, &round);
            }
            Phase::Fencing { elapsed } => {
                let mut round = self.ballot.fence_begun(&self.world, client, elapsed);
                self.link(client, master).answer = Answer::Counted(voted);
                round.vote(seat, voted.into(), NOW);
                self.conclude_fence(client, &round);
            }
            Phase::Extending { left, elapsed } => {
                let mut round = self.ballot.extend(&self.world, client, elapsed, left);
                let voted = self.vote_on_extension(client, master, voted);
                self.link(client, master).answer = Answer::Counted(voted);
                round.vote(seat, voted.into(), NOW);
                self.conclude_extension(client, &round);
            }
            Phase::Held { .. } => self.note_straggler(client, master, voted),
            Phase::Releasing { left } => {
                let mut round = self.ballot.release(&self.world, client);
                self.link(client, master).answer = Answer::Counted(voted);
                round.vote(seat, voted.into());
                self.conclude_release(client, &round, left > 0);
            }
            Phase::Idle => {}
        }
    }

    /// Stops waiting for answers: the core closes the round.
    pub(crate) fn time_out(&mut self, client: usize) {
        match self.world.clients[client].phase {
            Phase::Taking { elapsed } => {
                let mut round = self.ballot.acquire(&self.world, client, elapsed);
                round.close(NOW);
                self.shows(Event::TimedOut);
                self.conclude_round(client, elapsed, &round);
            }
            Phase::Fencing { elapsed } => {
                let mut round = self.ballot.fence_begun(&self.world, client, elapsed);
                round.close(NOW);
                self.shows(Event::TimedOut);
                self.conclude_fence(client, &round);
            }
            Phase::Extending { left, elapsed } => {
                let mut round = self.ballot.extend(&self.world, client, elapsed, left);
                round.close(NOW);
                self.conclude_extension(client, &round);
            }
            Phase::Releasing { left } => {
                let mut round = self.ballot.release(&self.world, client);
                round.close();
                self.conclude_release(client, &round, left > 0);
            }
            Phase::Idle | Phase::Held { .. } => {}
        }
    }

    fn conclude_round(&mut self, client: usize, elapsed: u8, round: &AcquireRound) {
        match round.verdict() {
            AcquireVerdict::Pending => {}
            AcquireVerdict::Won(lease) if self.setting.fenced => self.fence(client, elapsed, lease),
            AcquireVerdict::Won(lease) => {
                self.shows([Event::GrantedA, Event::GrantedB][client]);
                self.check_quorum(client);
                self.hold(client, ticks(lease.validity(NOW)), false);
            }
            AcquireVerdict::Lost(refusal) => {
                if refusal == Refusal::TooLate {
                    self.shows(Event::RefusedTooLate);
                } else if round.tally().open() > 0 {
                    self.shows(Event::RefusedEarly);
                }
                self.give_up(client);
            }
        }
    }

    /// A broken driver counts a master that it gives the key back.
    fn vote_on_extension(&mut self, client: usize, master: usize, voted: Voted) -> Voted {
        if voted == Voted::No && self.setting.is(Mutation::ReseedCounts) {
            self.send_seed(client, master);
            return Voted::Yes;
        }
        voted
    }

    fn conclude_extension(&mut self, client: usize, round: &ExtendRound) {
        match round.verdict() {
            ExtendVerdict::Pending => {}
            ExtendVerdict::Renewed(lease) => {
                self.shows(Event::Renewed);
                self.check_quorum(client);
                let reseeding = self.setting.reseeds && self.may_have_lost_it(client);
                self.hold(client, ticks(lease.validity(NOW)), reseeding);
            }
            ExtendVerdict::Lost(loss) => {
                self.shows(match loss {
                    LeaseLoss::Gone => Event::ExtensionGone,
                    LeaseLoss::Expired => Event::ExtensionExpired,
                });
                self.give_up(client);
            }
            ExtendVerdict::Unknown => {
                self.shows(Event::ExtensionUnknown);
                let left = round.standing().validity(NOW);
                self.hold(client, ticks(left), false);
            }
        }
    }

    /// Whether there are masters that said no to the extension, or still may.
    fn may_have_lost_it(&self, client: usize) -> bool {
        let mut answers = self
            .world
            .columns
            .iter()
            .map(|column| column.links[client].answer);
        answers.any(|answer| match answer {
            Answer::Counted(voted) | Answer::Sent(voted) => voted == Voted::No,
            Answer::None => true,
        })
    }

    /// An answer to an extension that was renewed.
    fn note_straggler(&mut self, client: usize, master: usize, voted: Voted) {
        self.link(client, master).answer = Answer::Counted(voted);
        if !self.may_have_lost_it(client) {
            self.hold(client, self.world.clients[client].validity(), false);
        }
    }

    fn conclude_release(&mut self, client: usize, round: &ReleaseRound, was_valid: bool) {
        match round.verdict() {
            ReleaseVerdict::Pending => return,
            ReleaseVerdict::Released => {
                self.shows(Event::Released);
                let left = self.world.have(self.own_token(client));
                if N - left < self.quorum() {
                    self.breaks(Promise::ReleaseToldRight);
                }
            }
            ReleaseVerdict::NotHeld => {
                self.shows(Event::NotHeld);
                if was_valid && !self.has_forgotten() {
                    self.breaks(Promise::ReleaseToldRight);
                }
            }
            ReleaseVerdict::Unconfirmed => self.shows(Event::ReleaseUnconfirmed),
        }
        self.rest(client);
    }

    /// Whether a master may have lost a key before its time.
    fn has_forgotten(&self) -> bool {
        let faults = self.world.faults;
        let left = (faults.crashes, faults.reverts, faults.jumps);
        left != (
            self.setting.crashes,
            self.setting.reverts,
            self.setting.jumps,
        )
    }

    pub(crate) fn check_quorum(&mut self, client: usize) {
        if self.world.had(self.own_token(client)) < self.quorum() {
            self.breaks(Promise::OnQuorum);
        }
    }

    /// What a quorum is, whatever a broken driver takes for one.
    fn quorum(&self) -> usize {
        N / 2 + 1
    }

    /// A master has executed a request of this client.
    pub(crate) fn answered(&mut self, client: usize, master: usize, request: Request, vote: Vote) {
        if request.kind == Kind::Take && vote == Vote::Yes {
            self.note_late_grant(client, request);
        }
        let is_awaited = self.is_awaited(client, master, request);
        let count = self.world.columns[master].master.count;
        let link = self.link(client, master);
        if is_awaited && link.answer == Answer::None {
            link.answer = Answer::Sent(vote.into());
            if request.kind == Kind::Take && vote == Vote::Yes {
                link.count = count;
            }
        }
    }

    fn note_late_grant(&mut self, client: usize, request: Request) {
        let me = &self.world.clients[client];
        if request.round != me.round || !me.cares() {
            self.shows(Event::LateGrantReleased);
        } else if matches!(me.phase, Phase::Fencing { .. }) {
            self.shows(Event::LateGrantFenced);
        } else if me.validity() > 0 {
            self.shows(Event::LateGrantKept);
        }
    }
}
