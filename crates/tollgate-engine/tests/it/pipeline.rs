//! The whole pipeline with nothing pretended: the engine on SQLite and PostgreSQL, over the real
//! client and signer, against the dev chain and anvil.
//!
//! Every scenario is one function of a pipeline, and a test for each store and chain:
//! `pipeline::creates::a_thousand_…::postgres_anvil`. The outcome is read from the chain's own blocks
//! (`check`), never from what the engine believes.

/// A test of each scenario for each store and each chain.
macro_rules! everywhere {
    (in $era:ident: $($scenario:ident),+ $(,)?) => { $(
        mod $scenario {
            use tollgate_testkit::StoreKind::{self, Postgres, Sqlite};

            use crate::pipeline::chains::ChainKind::{self, Anvil, Devchain};
            use crate::pipeline::chains::Era;
            use crate::pipeline::support::Pipeline;

            async fn run(store: StoreKind, chain: ChainKind) {
                super::$scenario(Pipeline::in_era(store, chain, Era::$era).await).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite_devchain() {
                run(Sqlite, Devchain).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite_anvil() {
                run(Sqlite, Anvil).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres_devchain() {
                run(Postgres, Devchain).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres_anvil() {
                run(Postgres, Anvil).await;
            }
        }
    )+ };
    ($($scenario:ident),+ $(,)?) => {
        everywhere! { in London: $($scenario),+ }
    };
}

mod bumps;
mod cancels;
mod chains;
mod check;
mod creates;
mod diagnoses;
mod endpoints;
mod finality;
mod funds;
mod kills;
mod lost_commits;
mod outsiders;
mod private;
mod reorgs;
mod reservations;
mod slots;
mod strict;
mod stuck;
mod support;
mod unwritable;
