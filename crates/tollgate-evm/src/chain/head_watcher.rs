//! Follows the head of one endpoint, by its announcements or by polling.
//!
//! One task for each endpoint, restarted if it panics. Polling its head is also how an endpoint that was
//! unavailable is found to have recovered.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::identity::Identity;
use super::pool_member::{ChainCheck, PoolMember};
use super::router::Router;
use crate::endpoint::Announced;

/// An endpoint that announces its heads is polled this many times less often.
pub(super) const SAFETY_POLL_FACTOR: u32 = 10;
/// The chain of an endpoint is checked again this many times less often: what answers behind a URL may
/// change at any time.
const CHAIN_CHECK_POLL_FACTOR: u32 = 60;
/// The shortest interval at which a failing endpoint is polled.
const PROBE_MIN: Duration = Duration::from_secs(1);

/// Runs until the chain is dropped.
pub(super) async fn follow(router: Arc<Router>, member: Arc<PoolMember>, chain: Identity) {
    loop {
        // The task ends when this future is dropped.
        let mut task = JoinSet::new();
        task.spawn(follow_once(router.clone(), member.clone(), chain));
        match task.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(endpoint = member.endpoint.name(), %error, "head watcher panicked; restarting");
                sleep(PROBE_MIN).await;
            }
            _ => return,
        }
    }
}

/// Ends only for an endpoint that is not read from.
async fn follow_once(router: Arc<Router>, member: Arc<PoolMember>, chain: Identity) {
    let mut announced = member.endpoint.announced();
    let pause = router.config.poll_interval * CHAIN_CHECK_POLL_FACTOR;
    let mut checked_at = Instant::now();
    loop {
        match member.chain_check() {
            ChainCheck::Failed(_) => {
                sleep(pause).await;
                member.check(chain).await;
            }
            ChainCheck::Pending => member.check(chain).await,
            ChainCheck::Passed if checked_at.elapsed() >= pause => {
                checked_at = Instant::now();
                if !member.endpoint.health().is_limited(checked_at) {
                    member.check(chain).await;
                }
            }
            ChainCheck::Passed => {}
        }
        let now = Instant::now();
        // No calls while the endpoint is rate limited.
        if member.is_on_chain() && member.reads() && !member.endpoint.health().is_limited(now) {
            // The endpoint's health keeps the error.
            let _ = member.refresh_head().await;
            router.check_lead(&member).await;
        }
        router.select_head(Instant::now());
        if member.is_on_chain() && !member.reads() {
            return;
        }
        wait(&router, &member, announced.as_mut()).await;
    }
}

/// Waits until the next poll is due, and takes announcements meanwhile.
async fn wait(
    router: &Router,
    member: &PoolMember,
    mut announced: Option<&mut watch::Receiver<Announced>>,
) {
    let poll = router.config.poll_interval;
    let begun = Instant::now();
    loop {
        let live = announced.as_ref().is_some_and(|heads| heads.borrow().live);
        let pause = match (member.is_on_chain(), member.endpoint.health().failures) {
            (true, 0) if live => poll * SAFETY_POLL_FACTOR,
            (true, 0) => poll,
            _ => poll.max(PROBE_MIN),
        };
        let left = (begun + pause).saturating_duration_since(Instant::now());
        let news = async {
            match announced.as_mut() {
                Some(heads) => heads.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        let woken = tokio::select! {
            biased;
            news = news => news,
            () = sleep(left) => return,
        };
        if !woken {
            announced = None;
            continue;
        }
        let seen = announced.as_mut().map(|heads| *heads.borrow_and_update());
        if let Some(Announced { live: true, head: Some(head), base_fee }) = seen
            && member.is_on_chain()
        {
            let now = Instant::now();
            member.note_head(head, base_fee.map(Some), now);
            router.select_head(now);
            if router.lasting_lead(member, now).is_some() {
                return;
            }
        }
    }
}
