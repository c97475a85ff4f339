//! Pause, resume, reconcile: what operators do to a submitter.

use serde_json::json;
use tollgate_testkit::wait;

use crate::dev_site::{DevSite, sender};

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_submitter_takes_work_and_opens_no_slot_until_it_is_resumed() {
    let site = DevSite::new().await;
    let under_way = site.pending(json!({})).await;
    let shown = site.operate("pause", json!({ "reason": "key rotation" })).await.with(200);
    assert_eq!((&shown["was"], &shown["status"]), (&json!("ACTIVE"), &json!("PAUSED")));
    assert_eq!(shown["statusReason"], "key rotation");
    let again = site.operate("pause", json!({ "reason": "still" })).await.json();
    assert_eq!((&again["was"], &again["status"]), (&json!("PAUSED"), &json!("PAUSED")));

    let held = site.create(json!({})).await;
    site.until(&held, "QUEUED", "HELD").await;
    assert_eq!(site.finish(&under_way).await["state"], "CONFIRMED", "what has a slot goes on");
    assert_eq!(site.seen(&held).await["nonce"], json!(null));

    let shown = site.operate("resume", json!({ "reason": "rotated" })).await.with(200);
    assert_eq!((&shown["was"], &shown["status"]), (&json!("PAUSED"), &json!("ACTIVE")));
    assert_eq!(shown["statusReason"], "rotated");
    let done = site.finish(&held).await;
    assert_eq!((&done["state"], &done["nonce"]), (&json!("CONFIRMED"), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_own_the_submitter_does_nothing_and_says_so() {
    let site = DevSite::new().await;
    let tx_id = site.pending(json!({})).await;
    let other = site.neighbour().await;
    let pause = format!("/api/v1/submitters/{}/pause", sender());
    for (path, body) in [
        (format!("/api/v1/tx/{tx_id}/cancel"), json!({})),
        (pause, json!({ "reason": "from next door" })),
    ] {
        let answer = other.post(&path, body.to_string()).await;
        answer.refused(409, "not_owner");
        assert!(answer.headers.contains_key("retry-after"), "{path}");
    }
    let done = site.finish(&tx_id).await;
    assert_eq!(
        (&done["state"], done["attempts"].as_array().unwrap().len()),
        (&json!("CONFIRMED"), 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_seen_by_whoever_reads_the_submitter() {
    let site = DevSite::new().await;
    site.operate("pause", json!({ "reason": "audit" })).await;
    let shown = site.get(&format!("/api/v1/submitters/{}", sender())).await.json();
    assert_eq!((&shown["status"], &shown["statusReason"]), (&json!("PAUSED"), &json!("audit")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_that_finds_nothing_says_so() {
    let site = DevSite::new().await;
    let tx_id = site.create(json!({})).await;
    site.finish(&tx_id).await;
    let open = site.pending(json!({})).await;
    let found = site.operate("reconcile", json!({})).await.with(200);
    assert_eq!((&found["chainNonce"], &found["pendingNonce"]), (&json!(1), &json!(2)));
    assert_eq!((&found["nextNonce"], &found["steps"]), (&json!(2), &json!([])));
    site.finish(&open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_moves_the_cursor_past_what_outsiders_used() {
    let site = DevSite::new().await;
    let ours = site.create(json!({})).await;
    site.finish(&ours).await;
    for _ in 0..2 {
        site.chain_says("devchain_foreignTx", json!([sender()])).await;
    }
    let found = wait::until("the chain's count to be seen", || async {
        let answer = site
            .operate("reconcile", json!({ "reason": "a stranger has the key" }))
            .await
            .with(200);
        Some(answer).filter(|found| found["nextNonce"] == 3)
    })
    .await;
    assert_eq!(found["chainNonce"], 3, "{found}");
    let next = site.create(json!({})).await;
    assert_eq!(site.finish(&next).await["nonce"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn mode_change_is_refused_while_work_is_open_and_shown_once_it_is_done() {
    let site = DevSite::new().await;
    let under_way = site.pending(json!({})).await;
    let strict = json!({ "mode": "strict", "reason": "bridge" });
    let refused = site.operate("mode", strict.clone()).await;
    let told = (refused.status.as_u16(), refused.code());
    assert_eq!(told, (409, "cannot_change_mode".to_owned()), "{refused:?}");
    for (body, code) in [
        (json!({ "reason": "bridge" }), "missing_field"),
        (json!({ "mode": "strict" }), "missing_field"),
        (json!({ "mode": "STRICT", "reason": "bridge" }), "invalid_body"),
    ] {
        site.operate("mode", body).await.refused(422, code);
    }
    assert_eq!(site.finish(&under_way).await["state"], "CONFIRMED");
    let shown = site.operate("mode", strict).await.with(200);
    assert_eq!((&shown["mode"], &shown["wasMode"]), (&json!("strict"), &json!("pipelined")));
    let trail = site.get(&format!("/api/v1/submitters/{}/history", sender())).await.json();
    let last = trail["items"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["event"], "mode_changed", "{trail}");
    assert_eq!(last["detail"], "from pipelined to strict: bridge");
    assert!(last["node"].is_string() && last["fencingToken"].is_u64(), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonces_are_filled_below_the_cursor_only_and_the_cursor_moves_forward_only() {
    let site = DevSite::new().await;
    let first = site.create(json!({})).await;
    site.finish(&first).await;
    for (word, body, code) in [
        ("fill", json!({ "first": 0, "with": "next", "reason": "drill" }), "missing_field"),
        ("fill", json!({ "first": 0, "last": 0, "with": "next" }), "missing_field"),
        (
            "fill",
            json!({ "first": 0, "last": 0, "with": "gas", "reason": "drill" }),
            "invalid_body",
        ),
        (
            "fill",
            json!({ "first": -1, "last": 0, "with": "next", "reason": "x" }),
            "invalid_number",
        ),
        ("advance", json!({ "reason": "drill" }), "missing_field"),
        ("advance", json!({ "nextNonce": 5 }), "missing_field"),
    ] {
        let refused = site.operate(word, body).await;
        refused.refused(422, code);
    }
    for (word, body) in [
        ("fill", json!({ "first": 0, "last": 1, "with": "next", "reason": "drill" })),
        ("advance", json!({ "nextNonce": 1, "reason": "drill" })),
        ("advance", json!({ "nextNonce": 9, "reason": "drill" })),
    ] {
        let refused = site.operate(word, body).await;
        let told = (refused.status.as_u16(), refused.code());
        assert_eq!(told, (409, "nonces_refused".to_owned()), "{refused:?}");
    }
    let body = json!({ "first": 0, "last": 0, "with": "placeholder", "reason": "drill" });
    let told = site.operate("fill", body).await.with(200);
    assert_eq!((&told["handedBack"], &told["counted"]), (&json!(0), &json!(1)), "{told}");
    assert_eq!(
        (&told["taken"], &told["free"], &told["nextNonce"]),
        (&json!(0), &json!(0), &json!(1))
    );
}
