//! An owner that takes connections and says nothing: what it holds up is bounded.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tollgate_devchain::dev_accounts;
use tollgate_model::port::{Acquisition, LeaseTerms, LiveNode};
use tollgate_model::{NodeId, Submitter, Text};
use tollgate_testkit::wait;
use uuid::Uuid;

use super::seats::{ACCOUNTS, Room, beat, create};

/// The most requests that are forwarded to one node at a time.
const UNDER_WAY_MAX: usize = 256;

fn terms() -> LeaseTerms {
    let minute = Duration::from_secs(60);
    LeaseTerms::new(minute, minute / 3, Duration::ZERO).unwrap()
}

/// A node that owns an account, is alive by the list of nodes, and answers nobody.
struct Frozen {
    node: NodeId,
    /// Tells of each request that reached it.
    reached: mpsc::UnboundedReceiver<()>,
    heart: JoinHandle<()>,
}

async fn frozen(room: &Room, of: Submitter) -> Frozen {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let node = NodeId::new("frozen", Uuid::now_v7()).unwrap();
    let (chain_id, advertise_url) = (of.chain_id, Text::lossy(&url));
    let entry =
        LiveNode { node: node.clone(), chain_id, advertise_url, draining: false, serves: None };
    room.store.heartbeat(&entry).await.unwrap();
    let heart = beat(room.store.clone(), entry.clone());
    let taken = room.store.acquire(of, &node, &terms()).await.unwrap();
    assert!(matches!(taken, Acquisition::Granted { .. }));
    let (reached, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let reached = reached.clone();
            held.push(tokio::spawn(async move {
                let mut first = [0; 1];
                if stream.read_exact(&mut first).await.is_ok() {
                    let _ = reached.send(());
                }
                std::future::pending::<()>().await;
            }));
        }
    });
    Frozen { node, reached: seen, heart }
}

impl Frozen {
    /// No sign of life any more, and off the list.
    async fn vanish(self, room: &Room) {
        self.heart.abort();
        let _ = self.heart.await;
        room.store.leave(&self.node).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_frozen_owner_are_bounded_and_end_with_its_last_sign_of_life() {
    let room = Room::new().await;
    let here = Arc::new(room.seat("here").await);
    let account = |n: usize| Submitter::new(here.engine.chain_id(), dev_accounts()[n].address);
    let (of, another) = (account(ACCOUNTS[0]), account(ACCOUNTS[1]));
    let mut frozen = frozen(&room, of).await;
    wait::until("the node to be known", || async {
        here.engine.is_live(&frozen.node).then_some(())
    })
    .await;
    let mut waiting = JoinSet::new();
    // All at once: the first ones wait for an answer for 25 s only.
    for number in 0..UNDER_WAY_MAX {
        let at = here.clone();
        waiting
            .spawn(async move { at.post("/api/v1/tx", &create(of, &format!("r{number}"))).await });
    }
    for _ in 0..UNDER_WAY_MAX {
        wait::within("a request to reach the frozen node", frozen.reached.recv()).await.unwrap();
    }
    let over = here.post("/api/v1/tx", &create(of, "over")).await;
    over.refused(503, "unavailable");
    assert!(over.text.contains("too many") && over.headers.contains_key("retry-after"), "{over:?}");
    // What is not the frozen node's goes on (I14).
    let own = room.store.acquire(another, &here.entry.node, &terms()).await.unwrap();
    assert!(matches!(own, Acquisition::Granted { .. }));
    here.post("/api/v1/tx", &create(another, "other")).await.with(202);

    frozen.vanish(&room).await;
    while let Some(answer) = wait::within("the answers", waiting.join_next()).await {
        let answer = answer.unwrap();
        answer.refused(503, "unavailable");
        assert!(answer.text.contains("may have done it"), "{answer:?}");
        assert!(
            answer.text.contains("does not renew its entry"),
            "long before its time is over: {answer:?}"
        );
        assert!(answer.headers.contains_key("retry-after"));
    }
}
