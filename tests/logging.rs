//! What is logged. One test, since a subscriber that other tests don't have may
//! miss what they were the first to log.
#![cfg(feature = "testing")]

mod memory;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory::*;
use redquorum::MemoryMaster;
use tokio::time::sleep;

/// What is logged at the level of warnings.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_masters_says_so_once() {
    for taken_first in [Duration::ZERO, ms(1000)] {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
            .with_writer(move || writer.clone())
            .finish();
        let _logging = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);

        let masters = masters::<3>();
        take_elsewhere(&masters, None);
        let down = masters.clone();
        tokio::spawn(async move {
            sleep(taken_first).await;
            down.iter().for_each(MemoryMaster::kill);
        });
        tokio::task::yield_now().await;
        let refused = redlock(&masters).lock(KEY).wait(ms(5000)).await;
        assert!(refused.is_err());
        let lines = log.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("no quorum"), "{lines:?}");
    }
}
