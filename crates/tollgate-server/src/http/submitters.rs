//! Shows submitters with owner and load, what the chain says of them, and their audit trails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::extract::State;
use tollgate_api::{
    BlockedBy, Submitter as ShownSubmitter, SubmitterEntry, SubmitterHistoryPage, SubmitterPage,
    schema,
};
use tollgate_engine::Engine;
use tollgate_model::ids::parse_address;
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::{Page, ReservationState, SubmitterOverview, SubmitterRecord};
use tollgate_model::reconcile::{Hole, KnownSlots};
use tollgate_model::{Address, Nonce, Submitter, reconcile};

use super::Api;
use super::access::Caller;
use super::access::sight::{Sight, reason_in_sight};
use super::accounts::effective;
use super::openapi::may_fail;
use super::params::{SubmitterHistoryParams, SubmitterParams, SubmittersParams};
use super::problem::Problem;
use super::query::{PathParams, QueryParams, last_of_full_page, submitter_at};
use super::read::head_in_sight;

/// The longest wait for the chain; fields that need a later answer are null.
const CHAIN_PATIENCE: Duration = Duration::from_secs(3);
/// Nonces of holes that are shown (I13).
const HOLES_MAX: usize = 100;
/// Pages of nonces that are read to find holes (I13): as many as a window may be wide.
const SLOT_PAGES_MAX: usize = 100;

may_fail! {
    SubmittersProblems: InvalidQuery, InvalidLimit, InvalidNumber, InvalidCursor,
        StoreUnavailable;
    HistoryProblems: InvalidPath, InvalidAddress, NotFound, InvalidQuery, InvalidLimit,
        InvalidNumber, InvalidCursor, StoreUnavailable;
    SubmitterProblems: InvalidPath, InvalidAddress, NotFound, InvalidQuery, StoreUnavailable;
}

/// List submitters
///
/// With owner and load, in the order of their addresses. What only the chain can tell is null here:
/// ask for one of them.
#[utoipa::path(
    get,
    path = "/api/v1/submitters",
    operation_id = "listSubmitters",
    tag = "submitters",
    params(SubmittersParams),
    responses((status = 200, description = "A page.", body = SubmitterPage), SubmittersProblems)
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    mut params: QueryParams,
) -> Result<axum::Json<SubmitterPage>, Problem> {
    let page = params.page()?;
    let after = params.cursor("cursor", |text| parse_address(text).ok())?;
    params.end()?;
    let found = api.store.submitters(api.engine.chain_id(), after, page).await?;
    let next = last_of_full_page(&found, page);
    let next = next.map(|last| last.record.submitter.address.to_checksum(None));
    let mut items = Vec::with_capacity(found.len());
    let mut sight = Sight::of(&api, &caller);
    for found in &found {
        if sight.has_submitter(found.record.submitter).await? {
            let shown = show(found, &api.engine, ChainSide::default());
            items.push(in_view(&api, &caller, shown).await?);
        }
    }
    Ok(axum::Json(SubmitterPage { items, next }))
}

/// Read a submitter
///
/// With what the chain says of it. Where the chain can't be asked, that is null and the rest is
/// there.
#[utoipa::path(
    get,
    path = "/api/v1/submitters/{address}",
    operation_id = "getSubmitter",
    tag = "submitters",
    params(SubmitterParams),
    responses(
        (status = 200, description = "The submitter.", body = ShownSubmitter),
        SubmitterProblems
    )
)]
pub(crate) async fn one(
    State(api): State<Api>,
    caller: Caller,
    PathParams(address): PathParams<String>,
    params: QueryParams,
) -> Result<axum::Json<ShownSubmitter>, Problem> {
    params.end()?;
    let of = submitter_at(&api, &caller, &address).await?;
    Ok(axum::Json(current(&api, &caller, of).await?))
}

/// A submitter as it is now, as far as the caller may see it.
pub(crate) async fn current(
    api: &Api,
    caller: &Caller,
    of: Submitter,
) -> Result<ShownSubmitter, Problem> {
    let found = find(api, of).await?.ok_or_else(|| Problem::not_found("submitter", "address"))?;
    let chain = chain_side(api, &found).await?;
    let head = head_in_sight(api, caller, of).await?;
    let blocked_by = head.as_ref().and_then(BlockedBy::head);
    let stored = api.store.account(of).await?;
    let key = stored.and_then(|stored| stored.account.key).map(|key| key.to_string());
    let shown = ShownSubmitter { blocked_by, key, ..show(&found, &api.engine, chain) };
    in_view(api, caller, shown).await
}

/// Without nonces, tokens, keys and reasons of operators, unless the caller is an operator.
async fn in_view(
    api: &Api,
    caller: &Caller,
    shown: ShownSubmitter,
) -> Result<ShownSubmitter, Problem> {
    if caller.is_operator() {
        let status_reason = reason_in_sight(api, caller, shown.status_reason).await?;
        return Ok(ShownSubmitter { status_reason, ..shown });
    }
    Ok(ShownSubmitter {
        key: None,
        // It names the operator who paused the account.
        status_reason: None,
        fencing_token: None,
        next_nonce: None,
        chain_nonce: None,
        hole_count: None,
        holes: None,
        blocked_by: shown.blocked_by.map(BlockedBy::for_callers),
        ..shown
    })
}

fn show(found: &SubmitterOverview, engine: &Engine, chain: ChainSide) -> ShownSubmitter {
    let (record, now) = (&found.record, engine.now());
    let mut depth: BTreeMap<_, _> =
        schema::open_states().into_iter().map(|state| (state.into(), 0)).collect();
    for (state, count) in &found.depth {
        *depth.entry(state.name().into()).or_default() += count;
    }
    let owner = found.owner.as_ref();
    let own = engine.accounts().settings(record.submitter.address);
    ShownSubmitter {
        settings: effective(engine, record.submitter, &own),
        label: own.label.as_ref().map(|label| label.as_str().to_owned()),
        key: None,
        enabled: !own.is_disabled,
        chain_id: record.submitter.chain_id.get(),
        address: record.submitter.address.to_checksum(None),
        mode: record.mode.name().into(),
        status: record.status.name().into(),
        status_reason: record.status_reason.as_ref().map(|why| why.as_str().to_owned()),
        owner: owner.map(|owner| owner.node.as_str().to_owned()),
        owner_url: owner.and_then(|owner| owner.advertise_url.clone()),
        fencing_token: owner.map(|owner| owner.token.get()),
        next_nonce: Some(record.next_nonce.get()),
        chain_nonce: chain.nonce,
        window: engine.window(record.submitter, record.mode),
        depth,
        oldest_pending_seconds: found.oldest_open.map(|oldest| now.since(oldest).as_secs()),
        hole_count: chain.holes.as_ref().map(|holes| holes.count),
        holes: chain.holes.map(|holes| holes.shown),
        blocked_by: None,
        balance: chain.balance,
    }
}

/// Read a submitter's audit trail
///
/// Every change of its status and every move of its cursor that opened no slot, oldest first: what
/// happened, when, by which node, under which token, and why. `detail` is null for a key with a tenant where a key of
/// another tenant, or of none, has given the reason.
#[utoipa::path(
    get,
    path = "/api/v1/submitters/{address}/history",
    operation_id = "getSubmitterHistory",
    tag = "submitters",
    params(SubmitterHistoryParams),
    responses((status = 200, description = "A page.", body = SubmitterHistoryPage), HistoryProblems)
)]
pub(crate) async fn history(
    State(api): State<Api>,
    caller: Caller,
    PathParams(address): PathParams<String>,
    mut params: QueryParams,
) -> Result<axum::Json<SubmitterHistoryPage>, Problem> {
    let page = params.page()?;
    let after = params.after(|number| i64::try_from(number).is_ok().then_some(number))?;
    params.end()?;
    let of = submitter_at(&api, &caller, &address).await?;
    api.store.submitter(of).await?.ok_or_else(|| Problem::not_found("submitter", "address"))?;
    let found = api.store.submitter_history(of, after, page).await?;
    let next = last_of_full_page(&found, page).map(|entry| entry.number);
    let mut items = Vec::with_capacity(found.len());
    for entry in &found {
        let entry = SubmitterEntry::from(entry);
        let detail = reason_in_sight(&api, &caller, entry.detail).await?;
        items.push(SubmitterEntry { detail, ..entry });
    }
    Ok(axum::Json(SubmitterHistoryPage { items, next }))
}

/// The chain's data about an account.
#[derive(Default)]
struct ChainSide {
    nonce: Option<u64>,
    balance: Option<String>,
    holes: Option<Holes>,
}

/// Nonces that the chain waits for and nobody has.
struct Holes {
    /// The lowest of them.
    shown: Vec<u64>,
    /// The number of all of them.
    count: u64,
}

/// Asks the chain about an account. If it can't be asked, fields are left out; it is never an error.
async fn chain_side(api: &Api, found: &SubmitterOverview) -> Result<ChainSide, Problem> {
    let address = found.record.submitter.address;
    let asked =
        async { tokio::join!(api.engine.chain_counts(address), api.engine.balance(address)) };
    let Ok((counts, balance)) = tokio::time::timeout(CHAIN_PATIENCE, asked).await else {
        return Ok(ChainSide::default());
    };
    let counts = counts.ok();
    let holes = match counts {
        Some(counts) => known_holes(api, &found.record, counts).await?,
        None => None,
    };
    let nonce = counts.and_then(|counts| counts.confirmed_mined()).map(Nonce::get);
    Ok(ChainSide { nonce, balance: balance.ok().map(|balance| balance.to_string()), holes })
}

/// The holes of a submitter, by the same rule as `reconcile`; `None` if there are too many open
/// slots to read here.
async fn known_holes(
    api: &Api,
    record: &SubmitterRecord,
    counts: AccountCounts,
) -> Result<Option<Holes>, Problem> {
    let of = record.submitter;
    let Some(open) = open_slots(api, of, counts.mined).await? else { return Ok(None) };
    let reserved = with_callers(api, of, counts.mined).await?;
    let mut slots = KnownSlots {
        mode: record.mode,
        cursor: record.next_nonce,
        final_end: Nonce::MIN,
        open: &open,
        reserved: &reserved,
    };
    let holes = Holes::new(&reconcile::holes(counts, &slots)?);
    if holes.count == 0 {
        return Ok(Some(holes));
    }
    // A slot that was closed after the chain was asked is final or counted by now, and is no hole.
    let last = api.store.final_slots(of, Page::new(1)?).await?;
    if let Some(last) = last.first() {
        slots.final_end = last.nonce.forward(1)?;
    }
    let asked = tokio::time::timeout(CHAIN_PATIENCE, api.engine.chain_counts(of.address)).await;
    let Ok(Ok(counts)) = asked else { return Ok(None) };
    Ok(Some(Holes::new(&reconcile::holes(counts, &slots)?)))
}

/// The nonces of all open transactions from one on.
async fn open_slots(
    api: &Api,
    of: Submitter,
    mut from: Nonce,
) -> Result<Option<BTreeSet<Nonce>>, Problem> {
    let page = Page::new(Page::MAX)?;
    let mut slots = BTreeSet::new();
    for _ in 0..SLOT_PAGES_MAX {
        let found = api.store.slots_from(of, from, page).await?;
        let last = found.last().copied();
        slots.extend(&found);
        match last {
            Some(last) if found.len() == page.limit() as usize => from = last.forward(1)?,
            Some(_) | None => return Ok(Some(slots)),
        }
    }
    Ok(None)
}

/// Nonces that callers hold or have used, from the chain's count on: they fill them themselves.
async fn with_callers(api: &Api, of: Submitter, from: Nonce) -> Result<BTreeSet<Nonce>, Problem> {
    let page = Page::new(Page::MAX)?;
    let out = api.store.reservations(of, None, page).await?;
    let held = out.iter().filter(|one| one.state == ReservationState::Reserved);
    let used = api.store.used_from(of, from, page).await?;
    Ok(held.map(|one| one.nonce).chain(used).collect())
}

impl Holes {
    fn new(holes: &[Hole]) -> Self {
        let nonces = holes.iter().flat_map(|hole| hole.first.get()..=hole.last.get());
        let count = |hole: &Hole| hole.last.get() - hole.first.get() + 1;
        Self { shown: nonces.take(HOLES_MAX).collect(), count: holes.iter().map(count).sum() }
    }
}

/// The page that begins right after the address before this one holds it first.
async fn find(api: &Api, of: Submitter) -> Result<Option<SubmitterOverview>, Problem> {
    let Submitter { chain_id, address } = of;
    let before = Address::from_slice(&predecessor(address));
    let after = (address != Address::ZERO).then_some(before);
    let found = api.store.submitters(chain_id, after, Page::new(1)?).await?;
    Ok(found.into_iter().find(|found| found.record.submitter == of))
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
    use tollgate_model::nonce::Mode;

    #[test]
    fn nonces_of_many_holes_are_counted_and_the_lowest_are_shown() {
        let nonce = |n| Nonce::new(n).unwrap();
        let found = |mined: u64, open: &[u64]| {
            let counts = AccountCounts::confirmed(nonce(mined), nonce(mined));
            let (open, reserved) = (open.iter().copied().map(nonce).collect(), BTreeSet::new());
            let (mode, cursor, final_end) = (Mode::Pipelined, Nonce::MAX, Nonce::MIN);
            let slots = KnownSlots { mode, cursor, final_end, open: &open, reserved: &reserved };
            Holes::new(&reconcile::holes(counts, &slots).unwrap())
        };
        assert_eq!(found(5, &[3, 5, 6]).shown, [0; 0]);
        assert_eq!(found(3, &[3, 5, 6]).shown, [4]);
        assert_eq!(found(9, &[3, 5, 6]).shown, [0; 0], "outsiders used the key");
        assert_eq!(found(3, &[]).shown, [0; 0], "nobody waits");
        let far = found(0, &[50, 1_000_000]);
        assert_eq!((far.shown.len(), far.shown[50], far.count), (HOLES_MAX, 51, 999_999));
    }

    #[test]
    fn predecessor_borrows_from_the_byte_before() {
        let mut bytes = [0u8; 20];
        bytes[18] = 1;
        let mut before = [0u8; 20];
        before[19] = 0xff;
        assert_eq!(predecessor(Address::from(bytes)), before);
    }
}
