//! What can be said of the masters at any time, for health pages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Fault;

/// How one master is just now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MasterState {
    /// The master's address, without credentials.
    pub address: Arc<str>,
    /// Whether there is a connection to it.
    pub connected: bool,
    /// Why it would have no vote on a lock with the default TTL; `None` if it has
    /// one. A master that came up lately says for how long:
    /// [`Fault::Quarantined`].
    pub fault: Option<Fault>,
    /// For how long the server has been up, at the least, as far as it is known.
    pub age: Option<Duration>,
    /// How long it took to answer just now.
    pub latency: Option<Duration>,
    /// Why the last connection was lost, or could not be made, however long ago.
    pub last_error: Option<Arc<str>>,
}

impl MasterState {
    /// Whether it would have a vote on a lock with the default TTL.
    pub fn votes(&self) -> bool {
        self.fault.is_none()
    }

    /// A master that there is no connection to, for this reason.
    pub(crate) fn unconnected(address: Arc<str>, fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..Self::new(address)
        }
    }

    /// A master of which nothing is known.
    pub(crate) fn new(address: Arc<str>) -> Self {
        Self {
            address,
            connected: false,
            fault: None,
            age: None,
            latency: None,
            last_error: None,
        }
    }

    fn cells(&self) -> [String; 6] {
        let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            self.address.to_string(),
            if self.connected { "yes" } else { "no" }.to_owned(),
            match &self.fault {
                None => "yes".to_owned(),
                Some(fault) => format!("no: {fault}"),
            },
            known(self.age.map(|age| format!("{} s", age.as_secs()))),
            known(
                self.latency
                    .map(|time| format!("{:.1} ms", time.as_secs_f64() * 1e3)),
            ),
            known(self.last_error.as_deref().map(str::to_owned)),
        ]
    }
}

/// How all masters are just now, in the order of the configuration; shown as a
/// table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterStates {
    masters: Vec<MasterState>,
    needed: usize,
}

impl MasterStates {
    pub(crate) fn new(masters: Vec<MasterState>, needed: usize) -> Self {
        Self { masters, needed }
    }

    /// The masters.
    pub fn masters(&self) -> &[MasterState] {
        &self.masters
    }

    /// How many masters would have a vote on a lock with the default TTL.
    pub fn voting(&self) -> usize {
        self.masters.iter().filter(|master| master.votes()).count()
    }

    /// How many masters must grant a lock.
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// Whether a lock that nobody holds could be had.
    pub fn has_quorum(&self) -> bool {
        self.voting() >= self.needed
    }
}

impl fmt::Display for MasterStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TITLES: [&str; 6] = [
            "master",
            "connected",
            "vote",
            "up for",
            "latency",
            "last error",
        ];
        let mut rows = vec![TITLES.map(str::to_owned)];
        rows.extend(self.masters.iter().map(MasterState::cells));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..TITLES.len()).filter_map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths);
            let line: Vec<String> = cells
                .map(|(cell, &width)| format!("{cell:width$}"))
                .collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
        }
        write!(
            f,
            "{} of {} masters vote, {} must",
            self.voting(),
            self.masters.len(),
            self.needed
        )
    }
}
