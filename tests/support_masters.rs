//! Tests of the masters that tests share: own ones, or those of the environment.

mod support;

use std::time::Duration;

use support::inspect;
use support::masters::{shared, unique};

async fn set(url: &str, key: &str) {
    inspect::ask::<()>(url, redis::cmd("SET").arg(key).arg("value")).await;
}

#[tokio::test]
async fn shared_masters_are_the_same_for_all() {
    let masters = shared().await;
    let resource = unique("shared");
    set(&masters.urls()[4], &resource).await;
    let held = shared().await.get(&resource).await;
    assert_eq!(held, [None, None, None, None, Some(b"value".to_vec())]);
    inspect::ask::<()>(&masters.urls()[4], redis::cmd("DEL").arg(&resource)).await;
    masters.assert_free(&resource, Duration::ZERO).await;
}

#[test]
fn unique_names_differ() {
    assert_ne!(unique("name"), unique("name"));
}

#[tokio::test]
async fn shared_masters_are_those_of_the_environment_if_it_names_any() {
    let urls = shared().await.urls();
    assert_eq!(urls.len(), 5);
    if let Ok(named) = std::env::var("REDQUORUM_TEST_MASTERS") {
        assert_eq!(urls.join(","), named);
    }
    let mut ids = Vec::new();
    for url in &urls {
        ids.push(inspect::info(url, "server", "run_id").await.unwrap());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "five different servers");
}
