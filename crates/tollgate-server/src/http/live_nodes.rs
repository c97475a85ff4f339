//! Lists the nodes that share the database. Reads what their heartbeats wrote.

use std::collections::HashMap;

use axum::extract::State;
use tollgate_api::{Node, NodeList};
use tollgate_model::B256;

use super::access::Caller;
use super::openapi::may_fail;
use super::problem::Problem;
use super::query::QueryParams;
use super::served_chains::Chains;

may_fail! {
    NodesProblems: InvalidQuery, StoreUnavailable;
}

/// List the nodes
///
/// Those whose last heartbeat is recent, of the chains that this node serves. Which of them owns an account is in
/// `owner` of the submitter.
#[utoipa::path(
    get,
    path = "/api/v1/nodes",
    operation_id = "listNodes",
    tag = "nodes",
    responses((status = 200, description = "The nodes.", body = NodeList), NodesProblems)
)]
pub(crate) async fn list(
    State(chains): State<Chains>,
    caller: Caller,
    params: QueryParams,
) -> Result<axum::Json<NodeList>, Problem> {
    params.end()?;
    let scope = &caller.rights().scope;
    // Nodes with the same accounts share one set.
    let mut counts: HashMap<B256, Option<u64>> = HashMap::new();
    let mut items = Vec::new();
    for chain in chains.served().iter().filter(|chain| scope.has_chain(chain.id)) {
        for live in chains.store().live_nodes(chain.id, chains.live_within()).await? {
            let accounts = match live.serves {
                Some(digest) if !counts.contains_key(&digest) => {
                    let set = chains.store().served_set(digest).await?;
                    let count = set.map(|set| set.accounts().count() as u64);
                    *counts.entry(digest).or_insert(count)
                }
                Some(digest) => counts[&digest],
                None => None,
            };
            items.push(Node::new(&live, accounts));
        }
    }
    Ok(axum::Json(NodeList { items }))
}
