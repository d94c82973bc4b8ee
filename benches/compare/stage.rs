//! Masters, and the subjects that are connected to them.

use std::time::Duration;

use redquorum_benches::panics::caught;
use redquorum_benches::turns::Cast;

use crate::sample::Sample;
use crate::subject::{Kind, Subject};
use crate::support::fleet::Fleet;
use crate::support::server::Server;

pub(crate) struct Stage {
    pub(crate) fleet: Fleet,
    pub(crate) cast: Cast<Subject>,
}

impl Stage {
    pub(crate) async fn of(masters: usize, kinds: &[Kind], patient: bool) -> Self {
        let fleet = Fleet::start(masters).await;
        let urls = fleet.urls();
        Self {
            cast: cast(kinds, &urls, patient).await,
            fleet,
        }
    }

    /// So many masters fail.
    pub(crate) fn fail(&mut self, count: usize, fail: fn(&mut Server)) {
        self.fleet.iter_mut().take(count).for_each(fail);
    }
}

/// Each is warm when it is measured.
pub(crate) async fn cast(kinds: &[Kind], urls: &[String], patient: bool) -> Cast<Subject> {
    let mut cast = Vec::new();
    for kind in kinds {
        let subject = caught(Subject::connect(*kind, urls, patient)).await;
        if let Ok(subject) = &subject {
            // What goes wrong here goes wrong in its turns, too, which say so.
            let _ = Sample::of(subject, 8, Duration::from_millis(200)).await;
        }
        cast.push((kind.name(), subject));
    }
    cast
}
