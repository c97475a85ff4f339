//! Two nodes under load, whose callers take every answer down.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tollgate_testkit::http::Response;
use tollgate_testkit::{PgServer, wait};

use crate::cluster::callers::{Answers, Callers};
use crate::cluster::stage::{Node, Stage, ask, create};

/// The longest that an answer may take during trouble, on a machine that is busy.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(15);

/// Creates that are repeated in the end.
const ASKED_AGAIN: usize = 60;

/// Callers' values are their account's number and their own.
const VALUES_PER_ACCOUNT: u64 = 1_000_000;

pub(super) struct Duo {
    pub(super) stage: Stage,
    pub(super) nodes: [Node; 2],
    pub(super) callers: Callers,
}

/// A stage on a server of its own, with short leases.
pub(super) async fn stage() -> Stage {
    Stage::on(PgServer::start_own().await, "3s", "500ms").await
}

impl Duo {
    /// Starts two nodes, and calls at them until there is some of everything.
    pub(super) async fn on(stage: Stage) -> Self {
        let nodes = [stage.node("a").await, stage.node("b").await];
        let callers = Callers::straight(nodes.iter().map(|node| node.port).collect());
        callers.progress(5).await;
        callers.answers();
        Self { stage, nodes, callers }
    }

    /// Waits until somebody was told to come back.
    pub(super) async fn trouble_is_felt(&self) {
        wait::until("an answer 503", || async { self.callers.was_put_off().then_some(()) }).await;
    }

    /// Waits until every account is served again; how long that takes from now.
    pub(super) async fn goes_on(&self) -> Duration {
        let begun = Instant::now();
        self.callers.progress(2).await;
        begun.elapsed()
    }

    /// The verdict: each accepted create is on the chain and in the feed once, and whoever asks again
    /// under the same id is told of the same transaction.
    pub(super) async fn end(self) {
        let Self { stage, nodes, callers } = self;
        let ended = callers.end().await;
        stage.check(&nodes[0], &ended.accepted).await;
        let step = ended.accepted.len().div_ceil(ASKED_AGAIN);
        for (tx_id, value) in ended.accepted.iter().step_by(step.max(1)) {
            let account = usize::try_from(value / VALUES_PER_ACCOUNT - 1).unwrap();
            let said = wait::until("the same answer", || async {
                let said = ask(nodes[1].port, "POST", "/api/v1/tx", &create(account, *value)).await;
                said.ok().filter(|said| ![409, 503].contains(&said.status))
            })
            .await;
            assert_eq!((said.status, said.body["txId"].as_str()), (200, Some(tx_id.as_str())));
        }
    }
}

/// One line about a time of trouble.
pub(super) fn tell(what: &str, answers: &BTreeMap<String, Answers>) {
    for (kind, Answers { count, longest }) in answers {
        eprintln!("{what}: {count} × {kind}, {longest:?} at most");
    }
}

/// All answers of that time came in time.
pub(super) fn assert_prompt(answers: &BTreeMap<String, Answers>) {
    for (kind, Answers { longest, .. }) in answers {
        assert!(*longest < ANSWER_MAX, "{kind} after {longest:?}");
        assert_ne!(kind, "none", "a call without an answer");
    }
}

/// Asks a node for something, and says how long that took.
pub(super) async fn timed(node: &Node, path: &str) -> (Response, Duration) {
    let begun = Instant::now();
    let said = ask(node.port, "GET", path, "").await.unwrap();
    (said, begun.elapsed())
}

/// Asks all nodes for all of these at once: path, answer, and how long that took.
pub(super) async fn timed_all<'a>(
    nodes: &[Node],
    paths: &[&'a str],
) -> Vec<(&'a str, Response, Duration)> {
    let all = nodes.iter().flat_map(|node| paths.iter().map(move |path| (node, *path)));
    join_all(all.map(async |(node, path)| {
        let (said, took) = timed(node, path).await;
        (path, said, took)
    }))
    .await
}
