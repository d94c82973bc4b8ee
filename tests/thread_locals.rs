//! Guards that are dropped with their thread, when it can't enter a runtime any
//! more.
#![cfg(feature = "testing")]

mod memory;

use std::cell::RefCell;
use std::time::Duration;

use memory::*;
use redquorum::{Guard, Wait};
use tokio::runtime::Handle;
use tokio::time::timeout;

thread_local! {
    static LAST: RefCell<Option<Guard>> = const { RefCell::new(None) };
}

/// What a thread has used last, it drops first: here what it knows of runtimes.
fn drop_with_its_thread(runtime: Handle, guard: Guard) {
    let thread = std::thread::spawn(move || {
        LAST.set(Some(guard));
        runtime.block_on(async {});
    });
    thread.join().unwrap();
}

/// A panic there would end the process.
#[tokio::test(flavor = "multi_thread")]
async fn s17_a_guard_dropped_at_the_end_of_its_thread_is_handed_on() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    let guard = redlock.lock(KEY).await.unwrap();
    let waiting = tokio::spawn(redlock.lock(KEY).wait(Wait::Forever).into_future());
    let before = masters[0].executed();
    while masters[0].executed() < before + 6 {
        tokio::task::yield_now().await;
    }
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || drop_with_its_thread(runtime, guard))
        .await
        .unwrap();
    let second = timeout(Duration::from_secs(5), waiting).await;
    let second = second.expect("it is handed on").unwrap().unwrap();
    assert_eq!(second.granted(), 3);
    second.release().await.unwrap();
}
