//! The whole pipeline with nothing pretended: the engine on SQLite and PostgreSQL, over the real
//! client and signer, against the dev chain and anvil.
//!
//! Every scenario is one function of a store and a chain, and a test for each combination that can
//! carry it: `pipeline::creates::a_thousand_…::postgres_anvil`. What happened is read from the
//! chain's own blocks (`check`), never from what the engine believes.

/// A test of each scenario for each store and each chain.
macro_rules! everywhere {
    ($($scenario:ident),+ $(,)?) => { $(
        mod $scenario {
            use crate::pipeline::chains::ChainKind::{Anvil, Devchain};
            use tollgate_testkit::StoreKind::{Postgres, Sqlite};

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite_devchain() {
                super::$scenario(Sqlite, Devchain).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite_anvil() {
                super::$scenario(Sqlite, Anvil).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres_devchain() {
                super::$scenario(Postgres, Devchain).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres_anvil() {
                super::$scenario(Postgres, Anvil).await;
            }
        }
    )+ };
}

mod chains;
mod check;
mod creates;
mod endpoints;
mod finality;
mod governance;
mod kills;
mod lost_answers;
mod lost_commits;
mod modest_nodes;
mod neighbours;
mod outsider;

mod reorgs;
mod reservations;
mod slots;
mod strict;
mod support;
mod unwritable;
