//! A worker process, and how a service uses the library: [`Worker::turn`].

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redquorum::{Guard, LockError, Redlock, ReleaseError};
use tokio::time::sleep;

use crate::AnyError;
use crate::counter::{self, Counter};
use crate::crew::{Job, Message};
use crate::figures::Figures;

/// What the workers contend for.
const RESOURCE: &str = "demo:counter";

/// How long the lock lives if its owner dies. It is many times what a section
/// takes, and leaves the write the longest that it may take.
pub const TTL: Duration = Duration::from_secs(2);

/// How long a worker waits for the lock before it counts that as an error.
const WAIT: Duration = Duration::from_secs(3);

/// Between reading the counter and writing it, so that others can get between.
const PAUSE: Duration = Duration::from_millis(1);

/// After a section: services have other things to do, too.
const REST: Duration = Duration::from_millis(2);

/// How often figures are reported.
const REPORT: Duration = Duration::from_millis(100);

/// Works until standard input ends: the parent closed it, or has died.
pub async fn run() -> ExitCode {
    match work().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If the parent is gone too, nobody is left to be told.
            let _ = tell(&Message::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

async fn work() -> Result<(), AnyError> {
    let mut worker = Worker::new(read_job()?).await?;
    let stop = end_of_input();
    let mut reported = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        worker.turn().await?;
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            worker.report()?;
        }
        sleep(REST).await;
    }
    worker.report()?;
    // Refused rounds are released in the background, which ends with the runtime.
    worker.redlock.settled().await;
    Ok(())
}

struct Worker {
    job: Job,
    redlock: Redlock,
    counter: Counter,
    figures: Figures,
}

impl Worker {
    /// One coordinator for the whole process: it keeps a connection to each
    /// master. Building it does no I/O, so masters may be down.
    async fn new(job: Job) -> Result<Self, AnyError> {
        Ok(Self {
            redlock: Redlock::builder().masters(&job.masters).build()?,
            counter: Counter::at(&job.counter).await?,
            figures: Figures::default(),
            job,
        })
    }

    async fn turn(&mut self) -> Result<(), AnyError> {
        if !self.job.locked {
            return self.section(None).await;
        }
        let Some(lock) = self.acquire().await? else {
            return Ok(());
        };
        self.section(Some(&lock)).await?;
        self.release(lock).await;
        Ok(())
    }

    /// Waits for the lock. That others have it, or that masters are down, may
    /// happen to any service: it must know what to do then. This one comes back
    /// later. All else is a mistake in the program, and ends it.
    async fn acquire(&mut self) -> Result<Option<Guard>, LockError> {
        let asked = Instant::now();
        match self.redlock.lock(RESOURCE).ttl(TTL).wait(WAIT).await {
            Ok(lock) => {
                self.figures.waited(asked.elapsed());
                return Ok(Some(lock));
            }
            Err(LockError::WaitedTooLong { .. }) => self.figures.error("waited too long"),
            Err(LockError::NoQuorum { .. }) => self.figures.error("no quorum"),
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// The critical section: adds one to the counter, in steps that nothing but
    /// the lock holds together.
    async fn section(&mut self, lock: Option<&Guard>) -> Result<(), AnyError> {
        let entry = self.counter.enter(&self.job.name).await?;
        let value = self.counter.read().await?;
        sleep(PAUSE).await;
        // The lock protects for as long as its lease lasts, and this process
        // may have been suspended: look before the step that can't be undone.
        let enough = lock.is_none_or(|lock| lock.ensure(counter::COMMAND).is_ok());
        if enough {
            self.counter.write(value + 1).await?;
        }
        let alone = self.counter.leave(&self.job.name).await?;
        let held = lock.is_none_or(Guard::is_valid);

        self.figures.sections += u64::from(enough);
        self.figures.hand_overs += u64::from(entry.handed_over);
        self.figures.overlaps += u64::from(!(entry.alone && alone));
        if !enough {
            self.figures.error("lease too short to write");
        } else if !held {
            self.figures.error("lease ended in the section");
        }
        Ok(())
    }

    /// Dropping the guard would do, but only the answer says whether the lock
    /// was held until now.
    async fn release(&mut self, lock: Guard) {
        match lock.release().await {
            Ok(_) => {}
            Err(ReleaseError::NotHeld { .. }) => self.figures.error("not held at the release"),
            Err(ReleaseError::Unconfirmed { .. }) => self.figures.error("release unconfirmed"),
            Err(_) => self.figures.error("release failed"),
        }
    }

    /// Reports what was done since the last report.
    fn report(&mut self) -> io::Result<()> {
        tell(&Message::Figures(std::mem::take(&mut self.figures)))
    }
}

fn read_job() -> Result<Job, AnyError> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

fn tell(message: &Message) -> io::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(message)?)
}

/// Becomes true when nobody holds the other end of standard input any more.
fn end_of_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        end.store(true, Ordering::Relaxed);
    });
    ended
}
