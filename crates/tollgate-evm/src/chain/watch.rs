//! Follows the head of one endpoint: announced where it can be, asked for where not.
//!
//! One task for each endpoint that is read from, restarted should it die. Also the way back for an
//! endpoint that was away: asking for its head is what finds out that it is there again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::member::{Identity, Member, Standing};
use super::router::Router;
use crate::endpoint::Announced;

/// How often an endpoint that announces its heads is asked all the same.
pub(super) const SAFETY_POLL_FACTOR: u32 = 10;
/// How often one that fails is tried.
const PROBE_MIN: Duration = Duration::from_secs(1);

/// Follows until the chain is dropped.
pub(super) async fn follow(router: Arc<Router>, member: Arc<Member>, chain: Identity) {
    loop {
        // Dropped with this future, and the task with it.
        let mut task = JoinSet::new();
        task.spawn(follow_once(router.clone(), member.clone(), chain));
        match task.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(endpoint = member.endpoint.name(), %error, "head watcher died");
                sleep(PROBE_MIN).await;
            }
            _ => return,
        }
    }
}

/// Ends only for an endpoint that is on another chain.
async fn follow_once(router: Arc<Router>, member: Arc<Member>, chain: Identity) {
    let mut announced = member.endpoint.announced();
    loop {
        match member.standing() {
            Standing::Refused(_) => return,
            Standing::Unchecked => {
                member.check(chain).await;
            }
            Standing::Good => {}
        }
        let now = Instant::now();
        // A quota is not spent on watching.
        if member.is_good() && member.reads() && !member.endpoint.health().is_limited(now) {
            // What went wrong is in the endpoint's health.
            let _ = member.ask_head().await;
            router.check_lead(&member).await;
        }
        router.weigh_heads(Instant::now());
        if member.is_good() && !member.reads() {
            return;
        }
        wait(&router, &member, announced.as_mut()).await;
    }
}

/// Waits until it is time to ask, taking announcements meanwhile.
async fn wait(
    router: &Router,
    member: &Member,
    mut announced: Option<&mut watch::Receiver<Announced>>,
) {
    let poll = router.config.poll_interval;
    let begun = Instant::now();
    loop {
        let live = announced.as_ref().is_some_and(|heads| heads.borrow().live);
        let pause = match (member.is_good(), member.endpoint.health().failures) {
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
            && member.is_good()
        {
            let now = Instant::now();
            member.saw_head(head, base_fee.map(Some), now);
            router.weigh_heads(now);
            if router.lasting_lead(member, now).is_some() {
                return;
            }
        }
    }
}
