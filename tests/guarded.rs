//! The samples of docs/fencing.md: writes that a later owner's make void. In each, an
//! owner sleeps through its lease, another takes the lock and writes, and the first
//! one's late write is refused (S16).
#![allow(unreachable_pub)]

#[path = "../docs/samples/guarded_put.rs"]
mod guarded_put;
#[path = "../docs/samples/guarded_set.rs"]
mod guarded_set;
#[path = "../docs/samples/guarded_update.rs"]
mod guarded_update;
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redquorum::{FencedGuard, Redlock};
use support::inspect;
use support::masters::{shared, unique};
use support::server::Server;
use support::wait::eventually;
use ureq::typestate::WithBody;

/// Two owners, of which the first has slept through its lease.
async fn owners() -> (FencedGuard, FencedGuard) {
    let builder = support::builder().masters(shared().await.urls());
    let redlock = builder.build().unwrap();
    let resource = unique("guarded");
    let sleeper = take(&redlock, &resource, Duration::from_millis(300)).await;
    let next = take(&redlock, &resource, Duration::from_secs(30)).await;
    assert!(!sleeper.is_valid());
    assert!(sleeper.fencing_token() < next.fencing_token());
    (sleeper, next)
}

async fn take(redlock: &Redlock, resource: &str, ttl: Duration) -> FencedGuard {
    redlock.lock(resource).ttl(ttl).fenced().await.unwrap()
}

/// What the guide quotes of the samples is what they do.
#[test]
fn the_guide_quotes_the_samples() {
    let guide = include_str!("../docs/fencing.md");
    let update = guarded_update::UPDATE.split_whitespace();
    let update = update.collect::<Vec<_>>().join(" ");
    assert!(guide.contains(&format!("`{update}`")), "{update}");
    let header = guarded_put::HEADER;
    assert!(guide.contains(&format!("`{header}: ")), "{header}");
}

#[tokio::test]
async fn s16_redis_refuses_the_late_write() {
    let (sleeper, next) = owners().await;
    let (late, current) = (sleeper.fencing_token(), next.fencing_token());
    let server = Server::start().await;
    let mut connection = server.connection().await;
    let set = async |value: &str, token| {
        let mut connection = connection.clone();
        let written = guarded_set::set(&mut connection, "stock", value, token).await;
        written.unwrap()
    };
    assert!(set("10", late).await);
    assert!(set("9", current).await);
    assert!(!set("11", late).await);
    assert_eq!(server.get("stock").await.unwrap(), b"9");
    assert!(set("8", current).await, "an owner writes more than once");
    assert_eq!(server.get("stock").await.unwrap(), b"8");

    let mut evaluate = redis::cmd("EVAL");
    evaluate.arg(include_str!("../docs/samples/guarded_set.lua"));
    evaluate
        .arg(2)
        .arg("new")
        .arg("{new}:written")
        .arg("1")
        .arg("none");
    let answer: redis::RedisResult<bool> = evaluate.query_async(&mut connection).await;
    assert!(answer.is_err(), "a token that is no number wedges nothing");
    assert!(server.get("{new}:written").await.is_none());
}

/// One with a hash tag of its own, too, has what is kept beside it in its slot.
#[tokio::test]
async fn a_cluster_takes_the_guarded_write() {
    let server = Server::start_with(&["--cluster-enabled", "yes"]).await;
    let mut connection = server.connection().await;
    let mut slots = redis::cmd("CLUSTER");
    slots.arg("ADDSLOTS").arg((0..16_384).collect::<Vec<_>>());
    let () = slots.query_async(&mut connection).await.unwrap();
    eventually("it serves its slots", Duration::from_secs(10), async || {
        let info: String = inspect::ask(&server.url(), redis::cmd("CLUSTER").arg("INFO")).await;
        info.contains("cluster_state:ok")
    })
    .await;
    for key in ["stock", "{7}:stock", "stock{7}"] {
        for (token, written) in [(5, true), (4, false), (5, true)] {
            let outcome = guarded_set::set(&mut connection, key, "1", token).await;
            assert_eq!(outcome, Ok(written), "{key}");
        }
    }
}

#[tokio::test]
async fn s16_a_database_refuses_the_late_write() {
    let (sleeper, next) = owners().await;
    let (late, current) = (sleeper.fencing_token(), next.fencing_token());
    let db = rusqlite::Connection::open_in_memory().unwrap();
    db.execute(guarded_update::TABLE, []).unwrap();
    db.execute("INSERT INTO stock (id, amount) VALUES ('7', 100)", [])
        .unwrap();
    let set = |amount, token| guarded_update::set_amount(&db, "7", amount, token).unwrap();
    let amount = || -> i64 {
        let row = db.query_row("SELECT amount FROM stock", [], |row| row.get(0));
        row.unwrap()
    };
    assert!(set(10, late));
    assert!(set(9, current));
    assert!(!set(11, late));
    assert_eq!(amount(), 9);
    assert!(set(8, current), "an owner writes more than once");
    assert_eq!(amount(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_a_service_refuses_the_late_write() {
    let (sleeper, next) = owners().await;
    let (late, current) = (sleeper.fencing_token(), next.fencing_token());
    let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
    let kept = Arc::new(Mutex::new(guarded_put::Kept::default()));
    let url = format!("http://{}/stock", server.server_addr());
    let serving = {
        let (server, kept) = (server.clone(), kept.clone());
        std::thread::spawn(move || guarded_put::serve(&server, &kept))
    };
    let put = |value: &str, token: &str| put(&url, value, token);
    let (late, current) = (late.to_string(), current.to_string());
    assert_eq!(put("10", &late), 204);
    assert_eq!(put("9", &current), 204);
    assert_eq!(put("11", &late), 412);
    assert_eq!(kept.lock().unwrap().value, "9");
    assert_eq!(put("8", &current), 204, "an owner writes more than once");
    assert_eq!(put("7", "none"), 400);
    let no_text = request(&url, &current).send(&b"\xff"[..]).unwrap();
    assert_eq!(no_text.status(), 400);
    assert_eq!(put("8", &current), 204, "one bad request ends nothing");
    assert_eq!(kept.lock().unwrap().value, "8");
    server.unblock();
    serving.join().unwrap().unwrap();
}

fn request(url: &str, token: &str) -> ureq::RequestBuilder<WithBody> {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let config = config.timeout_global(Some(Duration::from_secs(10)));
    let agent = ureq::Agent::new_with_config(config.build());
    agent.put(url).header(guarded_put::HEADER, token)
}

/// The status.
fn put(url: &str, value: &str, token: &str) -> u16 {
    let answer = request(url, token).send(value).unwrap();
    answer.status().as_u16()
}
