//! Finds the chain of each request and gives the request to that chain's routes.
//!
//! The same account exists on every chain, so nothing is guessed: the chain is that of the header
//! `tollgate-chain-id`, of `chainId` in the query or body, or of the transaction in the path. A node that
//! serves one chain needs none of these. The routes of a chain check the chain once more.
//!
//! A request for a chain that only other nodes serve is passed on to one of them, once.

mod batch;

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use tollgate_api::limit::BODY_BYTES_MAX;
use tollgate_api::{ErrorCode, Number, path, quoted};
use tollgate_engine::Engine;
use tollgate_model::{ChainId, U256};
use tower::ServiceExt;

use super::access::Counted;
use super::batch::{BatchItems, check_size};
use super::body::{Fields, raw, read_object, read_whole};
use super::chain_scope::AllChains;
use super::forward::{CHAIN_ID, FORWARDED, FORWARDED_BODY_BYTES_MAX, to_response};
use super::middleware::trace_id;
use super::peers::Unanswered;
use super::problem::Problem;
use super::read::parse_id;
use super::served_chains::{Chains, ServedChain};
use super::wait;

/// On a request: another node passed it on because it does not serve the chain. It is not passed on
/// again.
pub(crate) const ROUTED: HeaderName = HeaderName::from_static(tollgate_api::header::ROUTED);

/// The paths that answer for all chains if a request names none.
const OF_ALL_CHAINS: [&str; 3] = [path::TX, path::COMPLETIONS, path::COSTS];
/// The time for which a chain that no live node serves counts as one that is served again soon.
const SERVED_WITHIN: Duration = Duration::from_secs(3_600);

/// Gives a request to the routes of its chain.
pub(crate) async fn to_its_chain(State(chains): State<Chains>, mut request: Request) -> Response {
    let is_passed = [FORWARDED, ROUTED].iter().any(|name| request.headers().contains_key(name));
    let body_bytes_max = if is_passed { FORWARDED_BODY_BYTES_MAX } else { BODY_BYTES_MAX };
    if let Err(problem) = check_declared_length(request.headers(), body_bytes_max) {
        return problem.into_response();
    }
    DefaultBodyLimit::max(body_bytes_max).apply(&mut request);
    let (request, counted) = match batch::count_items(request).await {
        Ok(counted) => counted,
        Err(problem) => return problem.into_response(),
    };
    let answered = match (counted.as_ref().map_or(Ok(()), Counted::check), wait::asked(&request)) {
        (Err(problem), _) => Err(problem),
        (Ok(()), Some(wait)) => wait::answer(&chains, wait, request).await,
        (Ok(()), None) => dispatch(&chains, request).await,
    };
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    if let Some(counted) = counted {
        response.extensions_mut().insert(counted);
    }
    response
}

/// Refuses a body whose declared length is too large before any of it has arrived.
fn check_declared_length(headers: &HeaderMap, bytes_max: usize) -> Result<(), Problem> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match declared.and_then(|length| length.parse::<u64>().ok()) {
        Some(declared) if declared > bytes_max as u64 => {
            let what = format!("{declared} bytes are more than {bytes_max}");
            Err(Problem::of_field(ErrorCode::BodyTooLarge, "Content-Length", what))
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) async fn dispatch(chains: &Chains, mut request: Request) -> Result<Response, Problem> {
    if let Some(named) = named_chain(&mut request)? {
        return match find(chains, &named) {
            Some(chain) => run(chain, request).await,
            None => pass_on(chains, &named, request).await,
        };
    }
    let path = request.uri().path();
    if let Some(id) = tx_in(path) {
        // Reads need no engine, and the routes of any chain refuse a malformed id. An action needs the
        // chain's engine, and so do log entries.
        let needs_engine = request.method() == Method::POST || asks_for_logs(&request);
        let tx_id = parse_id(id).ok().filter(|_| needs_engine);
        let record = match tx_id {
            Some(tx_id) => chains.store().tx(tx_id).await?,
            None => None,
        };
        let Some(of) = record.map(|record| record.submitter.chain_id) else {
            return run_anywhere(chains, request).await;
        };
        return match chains.find(of) {
            Some(chain) => run(chain, request).await,
            None => pass_on(chains, &NamedChain::new("txId", of), request).await,
        };
    }
    let names_chain = [path::TX, path::BATCH, path::SUBMITTERS].contains(&path);
    if request.method() == Method::POST && names_chain {
        return create(chains, request).await;
    }
    if let Some(chain) = chains.only() {
        return run(chain, request).await;
    }
    if request.method() == Method::GET && OF_ALL_CHAINS.contains(&path) {
        request.extensions_mut().insert(AllChains);
        return run_anywhere(chains, request).await;
    }
    if needs_chain(path) {
        return Err(chain_missing(chains, "chainId"));
    }
    run_anywhere(chains, request).await
}

fn asks_for_logs(request: &Request) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "logs=true"))
}

/// A chain that a request names, and where it does so.
struct NamedChain {
    field: &'static str,
    id: U256,
}

impl NamedChain {
    fn new(field: &'static str, id: ChainId) -> Self {
        Self { field, id: U256::from(id.get()) }
    }
}

/// The chain that the header or the query names. Takes it out of the query, which the routes of a chain
/// read strictly.
fn named_chain(request: &mut Request) -> Result<Option<NamedChain>, Problem> {
    let by_query = take_chain_id(request)?;
    let by_header = header_chain(request.headers())?;
    if let (Some(query), Some(header)) = (&by_query, &by_header)
        && query.id != header.id
    {
        let what = format!("differs from the header {CHAIN_ID}, {}", header.id);
        return Err(Problem::of_field(ErrorCode::WrongChain, "chainId", what));
    }
    Ok(by_query.or(by_header))
}

/// The chain that the header names. A header that can't be read, or stands twice, is refused: it may
/// have meant another chain.
fn header_chain(headers: &HeaderMap) -> Result<Option<NamedChain>, Problem> {
    let mut given = headers.get_all(CHAIN_ID).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let id = text.parse::<u64>().ok().filter(|id| id.to_string() == text);
    let what = match (id, given.next()) {
        (Some(id), None) => {
            let field = tollgate_api::header::CHAIN_ID;
            return Ok(Some(NamedChain { field, id: U256::from(id) }));
        }
        (_, Some(_)) => "is given more than once; a request is for one chain".to_owned(),
        (None, None) => format!("{} must be the id of a chain, in decimal", quoted(text)),
    };
    // A node that forwarded it looks for another one.
    let is_forwarded = headers.contains_key(FORWARDED);
    let code = if is_forwarded { ErrorCode::NotOwner } else { ErrorCode::WrongChain };
    Err(Problem::of_field(code, CHAIN_ID.as_str(), what))
}

fn take_chain_id(request: &mut Request) -> Result<Option<NamedChain>, Problem> {
    let Some(query) = request.uri().query() else { return Ok(None) };
    let is_chain = |pair: &&str| pair.split('=').next() == Some("chainId");
    let mut given = query.split('&').filter(is_chain);
    let Some(pair) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(Problem::of_field(ErrorCode::InvalidQuery, "chainId", "is given twice"));
    }
    let text = pair.split_once('=').map_or("", |(_, value)| value);
    let id = Number::new(text.to_owned()).read("chainId")?;
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_chain(pair)).collect();
    let path = request.uri().path();
    let uri = match rest.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", rest.join("&")),
    };
    *request.uri_mut() = uri.parse::<Uri>().map_err(|_| Problem::defect())?;
    Ok(Some(NamedChain { field: "chainId", id }))
}

fn find<'a>(chains: &'a Chains, named: &NamedChain) -> Option<&'a ServedChain> {
    let id = u64::try_from(named.id).ok()?;
    chains.find(ChainId::new(id).ok()?)
}

/// The transaction id in a path.
fn tx_in(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(path::TX)?.strip_prefix('/')?;
    let id = rest.split('/').next()?;
    // The other paths at this place are no ids. A hash is looked up by any node, as an id is.
    let is_other = [path::BATCH, path::BY_REQUEST, path::COMPLETIONS].contains(&path);
    (!is_other).then_some(id)
}

/// Returns whether the routes under a path are about one chain.
fn needs_chain(path: &str) -> bool {
    let is_under = |root: &str| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    [path::TX, path::SUBMITTERS, path::POOLS, path::COSTS].into_iter().any(is_under)
}

fn chain_missing(chains: &Chains, field: &str) -> Problem {
    let what = format!("is missing; this node serves several chains: {}", chains.listed());
    Problem::of_field(ErrorCode::MissingField, field, what)
}

async fn run(chain: &ServedChain, request: Request) -> Result<Response, Problem> {
    let started = chain.started()?;
    let response = started.routes.clone().oneshot(request).await;
    Ok(response.unwrap_or_else(|never| match never {}))
}

/// Gives a request that needs no engine to the routes of any chain.
async fn run_anywhere(chains: &Chains, request: Request) -> Result<Response, Problem> {
    let Some(started) = chains.started().next() else {
        let detail = "no chain of this node has started yet; GET /readyz says why";
        return Err(Problem::new(ErrorCode::Unavailable, detail));
    };
    let response = started.routes.clone().oneshot(request).await;
    Ok(response.unwrap_or_else(|never| match never {}))
}

/// Gives a create to the chain that its body names.
async fn create(chains: &Chains, request: Request) -> Result<Response, Problem> {
    let (parts, body) = read_parts(request).await?;
    let again = || Request::from_parts(parts.clone(), Body::from(body.clone()));
    // The common case costs no parsing: one chain, and nothing that could name another.
    if let Some(chain) = chains.only()
        && memchr::memmem::find(&body, b"chainId").is_none()
    {
        return run(chain, again()).await;
    }
    // A body that can't be read names no chain. The routes of any chain refuse it with the reason.
    let Ok(create) = raw(&body) else { return run_anywhere(chains, again()).await };
    if parts.uri.path() == path::BATCH {
        return match read_object(create) {
            Ok(BatchItems(items)) => {
                check_size(&items)?;
                batch::create_over_chains(chains, &parts, &items).await
            }
            Err(_) => run_anywhere(chains, again()).await,
        };
    }
    let Ok(named) = chain_of_create(create) else { return run_anywhere(chains, again()).await };
    let Some(named) = named else { return run(assumed_chain(chains)?, again()).await };
    match find(chains, &named) {
        Some(chain) => run(chain, again()).await,
        None => pass_on(chains, &named, again()).await,
    }
}

/// The chain of a request that names none.
fn assumed_chain(chains: &Chains) -> Result<&ServedChain, Problem> {
    chains.only().ok_or_else(|| chain_missing(chains, "chainId"))
}

fn chain_of_create(create: &RawValue) -> Result<Option<NamedChain>, Problem> {
    let given = Fields::of(create, String::new())?.number("chainId")?;
    given.map(|id| Ok(NamedChain { field: "chainId", id: id.read("chainId")? })).transpose()
}

async fn read_parts(request: Request) -> Result<(Parts, Bytes), Problem> {
    let (parts, body) = request.into_parts();
    let body = read_whole(Request::from_parts(parts.clone(), body), &()).await?;
    Ok((parts, body))
}

/// Passes a request on to a node that serves its chain.
async fn pass_on(
    chains: &Chains,
    named: &NamedChain,
    request: Request,
) -> Result<Response, Problem> {
    let is_forwarded = request.headers().contains_key(FORWARDED);
    let chain = u64::try_from(named.id).ok().and_then(|id| ChainId::new(id).ok());
    let refused = || {
        // A number that is no chain id is not repeated: it may be a secret.
        let asked = chain.map_or_else(|| "the number".to_owned(), |chain| chain.to_string());
        let what = format!(
            "{asked} is not served by this node, which serves {}, nor by another one that is alive",
            chains.listed()
        );
        // A node that forwarded it looks for another one.
        let code = if is_forwarded { ErrorCode::NotOwner } else { ErrorCode::WrongChain };
        Problem::of_field(code, named.field, what)
    };
    let Some(chain) = chain else { return Err(refused()) };
    if is_forwarded || request.headers().contains_key(ROUTED) {
        return Err(refused());
    }
    let nodes = chains.store().live_nodes(chain, chains.live_within()).await?;
    let mut nodes: Vec<_> = nodes.into_iter().filter(|node| !node.draining).collect();
    if nodes.is_empty() {
        if chains.store().live_nodes(chain, SERVED_WITHIN).await?.is_empty() {
            return Err(refused());
        }
        let detail = format!("no node that serves chain {chain} is alive at the moment");
        return Err(Problem::new(ErrorCode::Unavailable, detail));
    }
    // Spread by the request's trace id, which is as good as random.
    let (mut parts, body) = read_parts(request).await?;
    let start = trace_id(&parts.headers).bytes().map(usize::from).sum::<usize>() % nodes.len();
    nodes.rotate_left(start);
    parts.headers.insert(CHAIN_ID, HeaderValue::from(chain.get()));
    parts.headers.insert(ROUTED, HeaderValue::from_static("1"));
    let mut unreached = String::new();
    let own = chains.engines().next().map(Engine::node);
    for node in &nodes {
        let url = node.advertise_url.as_str();
        match chains.peers().pass_on(own, url, &parts, body.clone()).await {
            Ok(response) => return Ok(to_response(response, None)),
            Err(Unanswered::NotSent(why)) => unreached = format!("{url}: {why}"),
            Err(Unanswered::Full) => return Err(Problem::too_many_forwarded()),
            Err(Unanswered::NoAnswer(why)) => return Err(Problem::no_answer_from_owner(why)),
        }
    }
    let detail = format!("no node that serves chain {chain} was reached: {unreached}");
    Err(Problem::new(ErrorCode::Unavailable, detail))
}
