//! Submitters with their owners and load.

use axum::extract::{Path, State};
use serde_json::{Value, json};
use tollgate_model::ids::parse_address;
use tollgate_model::port::{Page, SubmitterOverview};
use tollgate_model::{Address, Submitter};

use super::Api;
use super::problem::Problem;
use super::query::Words;
use super::shape::submitter_json;

/// `GET /api/v1/submitters`.
pub(crate) async fn list(
    State(api): State<Api>,
    mut words: Words,
) -> Result<axum::Json<Value>, Problem> {
    let page = words.page()?;
    let after = words.address("cursor")?;
    words.end()?;
    let after = after.map(|address| Submitter::new(api.engine.chain_id(), address));
    let found = api.store.submitters(after, page).await?;
    let full = found.len() == page.limit() as usize;
    let next = found.last().filter(|_| full).map(|last| last.record.submitter.address);
    let now = api.engine.now();
    let items: Vec<Value> = found.iter().map(|found| submitter_json(found, now)).collect();
    Ok(axum::Json(json!({ "items": items, "next": next.map(|next| next.to_checksum(None)) })))
}

/// `GET /api/v1/submitters/{address}`.
pub(crate) async fn one(
    State(api): State<Api>,
    Path(address): Path<String>,
    words: Words,
) -> Result<axum::Json<Value>, Problem> {
    words.end()?;
    let address = parse_address(&address)
        .map_err(|error| Problem::invalid("invalid_address", error.to_string()))?;
    let found = find(&api, address).await?.ok_or_else(|| Problem::not_found("submitter"))?;
    let counts = api.engine.chain_counts(address).await.ok();
    let mut shape = submitter_json(&found, api.engine.now());
    shape["chainNonce"] = json!(counts.map(|counts| counts.mined.get()));
    shape["window"] = json!(api.engine.window());
    Ok(axum::Json(shape))
}

/// The page that begins right after the address before this one holds it first.
async fn find(api: &Api, address: Address) -> Result<Option<SubmitterOverview>, Problem> {
    let chain_id = api.engine.chain_id();
    let before = Address::from_slice(&predecessor(address));
    let after = (address != Address::ZERO).then(|| Submitter::new(chain_id, before));
    let found = api.store.submitters(after, Page::new(1)?).await?;
    let wanted = Submitter::new(chain_id, address);
    Ok(found.into_iter().find(|found| found.record.submitter == wanted))
}

/// The address that comes before another one.
fn predecessor(address: Address) -> [u8; 20] {
    let mut bytes = address.into_array();
    for byte in bytes.iter_mut().rev() {
        let (less, borrowed) = byte.overflowing_sub(1);
        *byte = less;
        if !borrowed {
            break;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_before_another_one() {
        let mut bytes = [0u8; 20];
        bytes[18] = 1;
        let mut before = [0u8; 20];
        before[19] = 0xff;
        assert_eq!(predecessor(Address::from(bytes)), before);
    }
}
