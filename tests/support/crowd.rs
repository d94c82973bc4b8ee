//! Coordinators whose tasks all want the same lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redquorum::{Redlock, Wait};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::fleet::Fleet;
use super::wait::eventually;

const LONG: Duration = Duration::from_secs(5);

/// For how long a busy task has it.
const MOMENT: Duration = Duration::from_millis(1);

/// A coordinator of the fleet that is connected to all of its masters, and waits for locks however
/// long.
pub async fn connected(fleet: &Fleet) -> Redlock {
    connected_to(fleet.urls(), fleet.len()).await
}

/// The same for so many masters at these URLs.
pub async fn connected_to(urls: Vec<String>, masters: usize) -> Redlock {
    let builder = super::builder().masters(urls).master_timeout(LONG);
    let redlock = builder.wait(Wait::Forever).build().unwrap();
    eventually("all masters grant", LONG, async || {
        let lock = redlock.lock("connected").await.unwrap();
        lock.release().await.unwrap().removed == masters
    })
    .await;
    redlock
}

/// Has so many tasks of a process take the lock again and again; each says how often it had it.
pub fn busy(redlock: &Redlock, tasks: usize, over: &Arc<AtomicBool>) -> Vec<JoinHandle<usize>> {
    let turns = async |redlock: Redlock, over: Arc<AtomicBool>| {
        let mut turns = 0;
        while !over.load(Ordering::Relaxed) {
            let lock = redlock.lock("a").await.unwrap();
            turns += 1;
            // The others of the process queue behind it.
            sleep(MOMENT).await;
            // Asked for again at once: on each connection right behind the release.
            drop(lock);
        }
        turns
    };
    let task = |_| tokio::spawn(turns(redlock.clone(), over.clone()));
    (0..tasks).map(task).collect()
}

/// How often each master was asked to set a key.
pub async fn sets(fleet: &Fleet) -> Vec<u64> {
    let mut sets = Vec::new();
    for master in fleet.iter() {
        sets.push(master.commandstats("set").await);
    }
    sets
}
