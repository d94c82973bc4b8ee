//! An in-process master, as one coordinator sees it: whether it has a vote is
//! each coordinator's own affair.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use futures::FutureExt;

use super::{Admission, Admissions, Command, Master, MasterState, MemoryMaster, Owed, Sent};
use crate::core::{Age, Evidence, Ttl};

pub(crate) struct Seat {
    master: MemoryMaster,
    admission: Admission,
}

impl Seat {
    pub(super) fn new(master: MemoryMaster, admissions: &Admissions) -> Self {
        Self {
            master,
            admission: Admission::new(admissions),
        }
    }

    fn evidence(&self) -> Evidence {
        let up_for = self.master.up_for();
        Evidence {
            age: Age::known(up_for.unwrap_or(Duration::MAX), self.admission.clock.now()),
            keeps_all: false,
        }
    }
}

impl Master for Seat {
    fn address(&self) -> &Arc<str> {
        self.master.address()
    }

    fn send(&self, command: &Arc<Command>, waker: &Waker) -> Sent {
        if let Some(fault) = self.master.fault() {
            return Sent::Not(fault);
        }
        let ruling = self.admission.rule(command.action, &self.evidence());
        ruling.apply(|| self.master.send(command, waker))
    }

    fn send_blindly(&self, release: &Arc<Command>) {
        self.master.send_blindly(release);
    }

    fn owe(&self, release: Owed) {
        self.master.owe(release);
    }

    /// It doesn't: those who wait for it look again from time to time.
    fn tells(&self) -> Option<u64> {
        None
    }

    fn is_barred(&self) -> bool {
        self.admission.is_barred()
    }

    fn state(&self, ttl: Ttl) -> Pin<Box<dyn Future<Output = MasterState> + Send + '_>> {
        let address = self.address().clone();
        let state = match self.master.fault() {
            Some(fault) => MasterState::unconnected(address, fault),
            None => MasterState {
                connected: true,
                fault: self.admission.quarantined(ttl, &self.evidence()),
                age: self.master.up_for(),
                latency: Some(self.master.round_trip()),
                ..MasterState::new(address)
            },
        };
        std::future::ready(state).boxed()
    }

    fn fell_silent(&self) {
        self.master.fell_silent();
    }
}
