//! Masters, and the subjects that are connected to them.

use std::time::Duration;

use crate::sample::Sample;
use crate::subject::{Kind, Subject};
use crate::support::fleet::Fleet;

pub(crate) struct Stage {
    pub(crate) fleet: Fleet,
    pub(crate) cast: Vec<(Kind, Subject)>,
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
}

/// Each is warm when it is measured.
pub(crate) async fn cast(kinds: &[Kind], urls: &[String], patient: bool) -> Vec<(Kind, Subject)> {
    let mut cast = Vec::new();
    for kind in kinds {
        let subject = Subject::connect(*kind, urls, patient).await;
        Sample::of(&subject, 8, Duration::from_millis(200)).await;
        cast.push((*kind, subject));
    }
    cast
}
