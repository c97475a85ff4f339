//! The chain that a list, a feed or a report is about: the one that the request names, or all of them.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tollgate_model::ChainId;

use super::Api;
use super::problem::Problem;

/// Marks a request that names no chain at a node that serves several.
#[derive(Clone, Copy)]
pub(crate) struct AllChains;

/// One chain, or all chains of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChainScope {
    One(ChainId),
    All,
}

impl ChainScope {
    /// The chain; `None` is all of them.
    pub(crate) const fn chain_id(self) -> Option<ChainId> {
        match self {
            Self::One(chain_id) => Some(chain_id),
            Self::All => None,
        }
    }
}

impl FromRequestParts<Api> for ChainScope {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        Ok(match parts.extensions.get::<AllChains>() {
            Some(AllChains) => Self::All,
            None => Self::One(api.engine.chain_id()),
        })
    }
}
