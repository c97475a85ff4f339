//! An account's transactions in each endpoint's pool, and whether it knows a transaction's attempts.
//!
//! Owns no state; [`tollgate_model::diagnose`] judges the answers. A pool that can't be read to its last
//! entry is not reported: an entry that was not read would look like one that is not there.

use std::collections::BTreeMap;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::diagnose::{EndpointReport, PoolContent};
use tollgate_model::{Address, Nonce, TxHash};

use super::pool_member::{ChainCheck, PoolMember};
use super::router::Router;
use crate::endpoint::Capability;
use crate::endpoint::json::{PoolJson, SlotJson};

/// The largest part of a pool that is read, in transactions (I13).
const ENTRIES_MAX: usize = 16_384;

/// Asks all endpoints at once.
pub(super) async fn pools(
    router: &Router,
    of: Address,
    attempts: &[TxHash],
) -> Vec<EndpointReport> {
    let now = Instant::now();
    let readers = router.all_readers(now);
    join_all(readers.iter().map(async |(member, chain_check)| match chain_check {
        ChainCheck::Passed => {
            let deadline = router.deadline_for(member, now);
            let asked = join(pool(member, of, deadline), knows_it(member, attempts, deadline));
            let (pool, knows_it) = asked.await;
            EndpointReport { pool, knows_it }
        }
        // It may be on another chain.
        ChainCheck::Pending | ChainCheck::Failed(_) => EndpointReport::default(),
    }))
    .await
}

async fn pool(member: &PoolMember, of: Address, deadline: Instant) -> Option<PoolContent> {
    let (endpoint, now) = (&member.endpoint, Instant::now());
    if !endpoint.capabilities().may_have(Capability::PoolContent, now) {
        return None;
    }
    let params = json!([of.to_string()]);
    let answer = endpoint.call_until("txpool_contentFrom", params, deadline).await;
    match answer {
        Ok(wire) => Option::and_then(wire, |wire| content(of, wire)),
        Err(error) => {
            if error.is_method_missing() {
                endpoint.capabilities().lacks(Capability::PoolContent, now);
            }
            None
        }
    }
}

/// Reads an account's part of a pool; `None` if it is another account's, unreadable or too long.
pub(super) fn content(of: Address, wire: PoolJson) -> Option<PoolContent> {
    let PoolJson { pending, queued, base_fee } = wire;
    if pending.is_none() && queued.is_none() && base_fee.is_none() {
        return None;
    }
    let lists = [&pending, &queued, &base_fee];
    if lists.into_iter().flatten().map(BTreeMap::len).sum::<usize>() > ENTRIES_MAX {
        return None;
    }
    let read = |list: Option<BTreeMap<String, SlotJson>>| {
        let entries = list.unwrap_or_default().into_iter();
        entries.map(|(key, entry)| slot(of, &key, &entry)).collect::<Option<BTreeMap<_, _>>>()
    };
    let (mut pending, due) = (read(pending)?, read(base_fee)?);
    pending.extend(due);
    Some(PoolContent { pending, queued: read(queued)? })
}

/// Reads one entry. Its key is the nonce, in decimal or in hex.
fn slot(of: Address, key: &str, entry: &SlotJson) -> Option<(Nonce, TxHash)> {
    let nonce = match key.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => key.parse().ok()?,
    };
    let is_its = entry.from.is_none_or(|from| from.0 == of)
        && entry.nonce.is_none_or(|said| said.0 == nonce);
    is_its.then_some((Nonce::new(nonce).ok()?, entry.hash.0))
}

/// Returns whether it knows any of them; `false` only if all questions were answered.
async fn knows_it(member: &PoolMember, attempts: &[TxHash], deadline: Instant) -> Option<bool> {
    if attempts.is_empty() {
        return None;
    }
    let params: Vec<Value> = attempts.iter().map(|hash| json!([hash.to_string()])).collect();
    let answers =
        member.endpoint.call_each_until("eth_getTransactionByHash", &params, deadline).await;
    let known = attempts.iter().zip(answers).map(|(hash, answer)| match answer {
        Ok(None) => Some(false),
        // Another transaction than was asked for is no answer.
        Ok(Some(SlotJson { hash: seen, .. })) => (seen.0 == *hash).then_some(true),
        Err(_) => None,
    });
    let known: Vec<_> = known.collect();
    if known.contains(&Some(true)) {
        return Some(true);
    }
    known.iter().all(Option::is_some).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Address = Address::repeat_byte(0x11);

    fn read(answer: Value) -> Option<PoolContent> {
        content(OF, serde_json::from_value(answer).ok()?)
    }

    fn entry(hash: u8, nonce: u64) -> Value {
        let hash = TxHash::repeat_byte(hash).to_string();
        json!({"hash": hash, "from": OF.to_string(), "nonce": format!("{nonce:#x}"), "gas": "0x0"})
    }

    fn slots(list: &BTreeMap<Nonce, TxHash>) -> Vec<(u64, u8)> {
        list.iter().map(|(nonce, hash)| (nonce.get(), hash[0])).collect()
    }

    #[test]
    fn pools_are_read_as_the_clients_write_them() {
        let geth = json!({"pending": {"9": entry(1, 9), "10": entry(2, 10)}, "queued": {}});
        let geth = read(geth).unwrap();
        assert_eq!((slots(&geth.pending), slots(&geth.queued)), (vec![(9, 1), (10, 2)], vec![]));
        let hex = read(json!({"pending": {"0xa": entry(1, 10)}, "queued": {"0x0c": entry(2, 12)}}));
        let hex = hex.unwrap();
        assert_eq!((slots(&hex.pending), slots(&hex.queued)), (vec![(10, 1)], vec![(12, 2)]));
        let erigon = json!({"pending": {}, "baseFee": {"4": entry(3, 4)}, "queued": null});
        let erigon = read(erigon).unwrap();
        assert_eq!(slots(&erigon.pending), [(4, 3)], "it can be mined once it pays enough");
        let bare = json!({"hash": TxHash::repeat_byte(7).to_string()});
        assert_eq!(slots(&read(json!({"queued": {"4": bare}})).unwrap().queued), [(4, 7)]);
    }

    #[test]
    fn pool_that_can_not_be_read_is_not_reported() {
        let other = json!({"hash": TxHash::ZERO.to_string(), "from": Address::ZERO.to_string()});
        let many: BTreeMap<_, _> = (0..=ENTRIES_MAX as u64).map(|n| (n, entry(1, n))).collect();
        let nonsense = [
            json!({}),
            json!([]),
            json!({"pending": {"x": entry(1, 1)}}),
            json!({"pending": {"1": entry(1, 1), "2": {"hash": null}}}),
            json!({"pending": {"1": entry(1, 2)}}),
            json!({"pending": {"1": other}}),
            json!({"pending": {"18446744073709551616": entry(1, 1)}}),
            json!({"pending": many}),
        ];
        for answer in nonsense {
            let shown: String = answer.to_string().chars().take(200).collect();
            assert_eq!(read(answer), None, "{shown}");
        }
    }
}
