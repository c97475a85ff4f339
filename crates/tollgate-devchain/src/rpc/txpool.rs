//! The `txpool_*` methods: what waits in this endpoint's own pool.

use alloy_primitives::Address;
use serde_json::{Map, Value, json};

use super::eth::{Ask, seen};
use super::json;
use crate::error::RpcError;

pub(super) fn status(ask: &Ask<'_>) -> Value {
    let (pending, queued) = seen!(ask, view => view.pool().counts());
    json!({ "pending": json::quantity(pending as u64), "queued": json::quantity(queued as u64) })
}

pub(super) fn content(ask: &Ask<'_>) -> Value {
    let (mut pending, mut queued) = (Map::new(), Map::new());
    seen!(ask, view => {
        let senders: Vec<Address> = view.pool().senders().collect();
        for sender in senders {
            let (now, later) = view.pooled(sender);
            for (list, map) in [(now, &mut pending), (later, &mut queued)] {
                if !list.is_empty() {
                    map.insert(sender.to_string(), json::pooled(&list));
                }
            }
        }
    });
    json!({ "pending": pending, "queued": queued })
}

pub(super) fn content_from(ask: &Ask<'_>) -> Result<Value, RpcError> {
    let sender = ask.params.address(0, "address")?;
    Ok(seen!(ask, view => {
        let (now, later) = view.pooled(sender);
        json!({ "pending": json::pooled(&now), "queued": json::pooled(&later) })
    }))
}
