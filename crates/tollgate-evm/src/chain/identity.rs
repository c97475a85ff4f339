//! Finds out which chain the endpoints are on.
//!
//! Owns no state. An endpoint of another chain does not stop a start: it is left out. What is expected
//! comes from the configuration, else from what most endpoints report.

use std::sync::Arc;

use futures_util::future::join_all;
use tollgate_model::{B256, ChainId};

use super::config::{ChainConfig, ConnectError};
use super::pool_member::PoolMember;
use crate::endpoint::RpcError;

/// The values that identify a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) chain_id: ChainId,
    pub(super) genesis: B256,
}

/// An endpoint's report: its chain id and, if it has it, the hash of its first block.
struct Report<'a> {
    endpoint: &'a str,
    chain_id: u64,
    genesis: Option<B256>,
}

/// The value that is reported most often, the earliest of several; and whether no other is reported as
/// often.
fn most_frequent<T: PartialEq + Copy>(values: &[T]) -> Option<(T, bool)> {
    let times = |value: &T| values.iter().filter(|other| *other == value).count();
    let most = values.iter().map(times).max()?;
    let mut frequent = values.iter().filter(|value| times(value) == most);
    let first = *frequent.next()?;
    Some((first, frequent.all(|other| *other == first)))
}

/// The identity of the chain, and which endpoints answered.
///
/// # Errors
/// No endpoint for reads answers, or none of those that answer is on the expected chain. If no chain is
/// configured, endpoints that report two chains equally often are an error as well: nothing tells
/// which one is meant.
pub(super) async fn identify(
    members: &[Arc<PoolMember>],
    config: &ChainConfig,
) -> Result<(Identity, Vec<bool>), ConnectError> {
    let answers = join_all(members.iter().map(async |member| {
        if !member.reads() {
            return None;
        }
        let asked = async {
            let chain_id = member.read_chain_id().await?;
            Ok::<_, RpcError>((chain_id, member.read_genesis().await?))
        };
        Some(asked.await)
    }))
    .await;
    let heard = answers.iter().map(|answer| matches!(answer, Some(Ok(_)))).collect();
    let (mut reports, mut refusals) = (Vec::new(), Vec::new());
    for (member, answer) in members.iter().zip(answers) {
        let endpoint = member.endpoint.name();
        match answer {
            None => {}
            Some(Err(error)) => refusals.push(format!("{endpoint}: {error}")),
            Some(Ok((chain_id, genesis))) => reports.push(Report { endpoint, chain_id, genesis }),
        }
    }
    if reports.is_empty() {
        return Err(ConnectError::Unavailable(refusals.join("; ")));
    }
    let chain_id = chain_of(&reports, config.chain_id)?;
    reports.retain(|report| report.chain_id == chain_id.get());
    Ok((Identity { chain_id, genesis: genesis_of(&reports, config.genesis)? }, heard))
}

fn chain_of(reports: &[Report<'_>], expected: Option<ChainId>) -> Result<ChainId, ConnectError> {
    let ids: Vec<u64> = reports.iter().map(|report| report.chain_id).collect();
    let wrong = |expected: ChainId, is_found: bool| {
        let wrong = reports.iter().find(|report| report.chain_id != expected.get());
        match wrong.filter(|_| !is_found) {
            Some(Report { endpoint, chain_id, .. }) => Err(ConnectError::WrongChain {
                endpoint: (*endpoint).to_owned(),
                expected,
                found: *chain_id,
            }),
            None => Ok(expected),
        }
    };
    if let Some(expected) = expected {
        return wrong(expected, ids.contains(&expected.get()));
    }
    let (most, is_clear) = most_frequent(&ids).unwrap_or_default();
    let most = ChainId::new(most).map_err(|error| ConnectError::Unavailable(error.to_string()))?;
    wrong(most, is_clear)
}

/// The genesis block of the endpoints on the chain.
fn genesis_of(reports: &[Report<'_>], expected: Option<B256>) -> Result<B256, ConnectError> {
    let told = reports.iter().filter_map(|report| Some((report.endpoint, report.genesis?)));
    let Some(expected) = expected else {
        let told: Vec<B256> = told.map(|(_, genesis)| genesis).collect();
        let none = || ConnectError::Unavailable("no endpoint has the first block".to_owned());
        return most_frequent(&told).map(|(genesis, _)| genesis).ok_or_else(none);
    };
    let is_good = |report: &Report<'_>| report.genesis.is_none_or(|genesis| genesis == expected);
    let mut wrong = told.filter(|(_, genesis)| *genesis != expected);
    match wrong.next().filter(|_| !reports.iter().any(is_good)) {
        Some((endpoint, found)) => {
            let endpoint = endpoint.to_owned();
            Err(ConnectError::WrongGenesis { endpoint, expected, found })
        }
        None => Ok(expected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_frequent_value_is_the_earliest_of_several() {
        assert_eq!(most_frequent(&[1, 2, 2]), Some((2, true)));
        assert_eq!(most_frequent(&[1, 2]), Some((1, false)));
        assert_eq!(most_frequent(&[7]), Some((7, true)));
        assert_eq!(most_frequent::<u64>(&[]), None);
    }
}
