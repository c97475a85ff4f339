//! The engine from intent to finality: on the SQLite store and a small fake chain, where every
//! moment can be chosen; and on real stores over real chains (`pipeline`).

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

/// A test of each scenario for each store. The limit is for lines that stand still, whose callers
/// would wait for ever.
macro_rules! on_both_stores {
    ($($scenario:ident),+ $(,)?) => { $(
        mod $scenario {
            use std::time::Duration;

            use tollgate_testkit::StoreKind::{self, Postgres, Sqlite};

            async fn run(store: StoreKind) {
                let ended = tokio::time::timeout(Duration::from_secs(300), super::$scenario(store));
                assert!(ended.await.is_ok(), "the scenario does not end");
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                run(Sqlite).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                run(Postgres).await;
            }
        }
    )+ };
}

mod bumps;
mod cancels;
mod counts;
mod expiry;
mod funds;
mod holes;
mod life;
mod limits;
mod modes;
mod outages;
mod outsiders;
mod ownership;
mod panics;
mod patience;
mod pause;
mod pipeline;
mod private;
mod rejected_slots;
mod repeats;
mod resends;
mod reservations;
mod schedule;
mod screening;
mod signed;
mod signing;
mod sizes;
mod spending;
mod stuck_policy;
mod support;
mod takeover;
mod tracking;
mod unwritable;
