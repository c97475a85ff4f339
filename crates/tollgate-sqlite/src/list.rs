//! Pages of transactions, newest first: picks the query that finds a filter's rows without reading other
//! finished ones.

use rusqlite::params;
use tollgate_model::port::{ListFilter, Page, StateFilter, TxRecord};
use tollgate_model::sql::Query;
use tollgate_model::{ChainId, Timestamp, TxId, TxState};

use crate::db::Connection;
use crate::error::QueryError;
use crate::{queries, row};

/// Above every id: one byte longer than the highest of them.
const ABOVE_ALL: [u8; 17] = [0xff; 17];

/// A page of transactions below a place.
pub(crate) fn page(
    conn: &Connection<'_>,
    filter: &ListFilter,
    after: Option<TxId>,
    page: Page,
) -> Result<Vec<TxRecord>, QueryError> {
    let Some(query) = query(filter) else { return Ok(Vec::new()) };
    let chain_id = filter.submitter.map(|submitter| submitter.chain_id).or(filter.chain_id);
    let address = filter.submitter.map(|submitter| submitter.address);
    let below = filter.below(after).map(|tx_id| tx_id.uuid().into_bytes());
    let lowest = filter.lowest_id().map(|tx_id| tx_id.uuid().into_bytes());
    let params = params![
        chain_id.map(ChainId::as_i64),
        address.as_ref().map(|address| address.as_slice()),
        below.as_ref().map_or(ABOVE_ALL.as_slice(), |below| below.as_slice()),
        codes(&filter.states),
        filter.from.map(Timestamp::unix_micros),
        filter.to.map(Timestamp::unix_micros),
        page.limit(),
        lowest.as_ref().map_or([].as_slice(), |lowest| lowest.as_slice())
    ];
    conn.all(query, params, |row| row::tx_record(row))
}

/// The query for a filter; none if nothing can pass it.
fn query(filter: &ListFilter) -> Option<Query> {
    if filter.excludes_everything() {
        return None;
    }
    match &filter.states {
        StateFilter::Any => Some(queries::TX_PAGE),
        StateFilter::Of(states) if !states.iter().any(|state| state.is_final()) => {
            Some(queries::TX_PAGE_OPEN)
        }
        StateFilter::Of(states) if states.iter().all(is_failed) => Some(queries::TX_PAGE_FAILED),
        StateFilter::Of(_) => Some(queries::TX_PAGE),
    }
}

fn is_failed(state: &TxState) -> bool {
    matches!(state, TxState::Failed(_))
}

/// The wanted states as a JSON array.
fn codes(states: &StateFilter) -> Option<String> {
    match states {
        StateFilter::Any => None,
        StateFilter::Of(states) => {
            let codes: Vec<_> = states.iter().map(|state| state.code().to_string()).collect();
            Some(format!("[{}]", codes.join(",")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_model::{Failed, Queued};

    #[test]
    fn open_and_failed_states_have_queries_of_their_own() {
        let waiting = TxState::Queued(Queued::Waiting);
        let reverted = TxState::Failed(Failed::Reverted);
        for (states, expected) in [
            (vec![], None),
            (vec![waiting], Some(queries::TX_PAGE_OPEN)),
            (vec![reverted], Some(queries::TX_PAGE_FAILED)),
            (vec![TxState::Confirmed], Some(queries::TX_PAGE)),
            (vec![waiting, reverted], Some(queries::TX_PAGE)),
        ] {
            let filter = ListFilter { states: StateFilter::Of(states), ..Default::default() };
            assert_eq!(query(&filter), expected);
        }
        assert_eq!(codes(&StateFilter::Of(vec![waiting, reverted])).unwrap(), "[10,50]");
    }
}
