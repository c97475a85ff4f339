//! Forwards requests about a submitter that another node owns to that node, once.
//!
//! Any node takes any request. Routing is never needed for correctness: whoever carries a request out
//! needs the lease (I1). A forwarded request is never forwarded again, so that none goes in circles.

use std::collections::HashMap;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tollgate_api::limit::{BATCH_ITEMS_MAX, BODY_BYTES_MAX};
use tollgate_api::{ErrorCode, Problem as ProblemBody, path, quoted};
use tollgate_engine::{Destination, Place};
use tollgate_http::HttpResponse;
use tollgate_metrics::ForwardResult;
use tollgate_model::ids::parse_address;
use tollgate_model::{ChainId, NodeId, Submitter};

use super::Api;
use super::access::Caller;
use super::account_pools::{FromPool, with_member};
use super::body::{Fields, raw, read_object, read_whole};
use super::create::answer_to_known;
use super::create_request::CreateRequest;
use super::idempotency::{ADDED_BYTES_MAX, key_of};
use super::peers::Unanswered;
use super::problem::Problem;
use super::read::parse_id;

pub(crate) const FORWARDED: HeaderName = HeaderName::from_static(tollgate_api::header::FORWARDED);
pub(crate) const OWNER: HeaderName = HeaderName::from_static(tollgate_api::header::OWNER);
pub(crate) const CHAIN_ID: HeaderName = HeaderName::from_static(tollgate_api::header::CHAIN_ID);
/// Tries of a request before its caller is asked to come back: at the place that is known,
/// and at another one if the submitter has moved meanwhile (I13).
const TRIES_MAX: u32 = 3;

/// The largest body of a forwarded request (I13): the largest that a caller may send, and what is added
/// to each item of a batch.
pub(crate) const FORWARDED_BODY_BYTES_MAX: usize =
    BODY_BYTES_MAX + BATCH_ITEMS_MAX * ADDED_BYTES_MAX;

/// The headers of another node's answer that reach the caller.
const ANSWER_HEADERS: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::RETRY_AFTER,
    header::LOCATION,
    HeaderName::from_static(tollgate_api::header::NEXT_CURSOR),
];

/// Carries a request out at the node that owns its submitter.
pub(crate) async fn to_the_owner(State(api): State<Api>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    if let Err(problem) = check_chain(request.headers(), api.engine.chain_id()) {
        return problem.into_response();
    }
    let request = match with_member(&api, request).await {
        Ok(request) => request,
        Err(problem) => return problem.into_response(),
    };
    let is_alone = api.engine.is_alone() && !api.engine.is_draining();
    if is_alone || request.headers().contains_key(FORWARDED) {
        api.engine.metrics().forward_total.inc(ForwardResult::Here);
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let whole = Request::from_parts(parts.clone(), body);
    let body = match read_whole(whole, &()).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let caller = match Caller::of(&parts.extensions) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let submitter = submitter_of(&api, &mut parts, &body).await;
    // The owner believes this node that the caller may use the account.
    let is_create = parts.uri.path() == path::TX && parts.extensions.get::<FromPool>().is_none();
    if let Some(submitter) = submitter.filter(|_| is_create)
        && let Err(problem) = caller.require_sender(submitter)
    {
        return problem.into_response();
    }
    let request = RoutedRequest { api, caller, parts, body, next };
    match submitter {
        Some(submitter) => request.run(submitter).await,
        None => request.run_here().await,
    }
}

/// Refuses a request for another chain before anything is read or done: the same account exists on
/// every chain, so nothing else in a request would tell. A forwarded request without the header (by a
/// node of an older version) may be for any chain, and is refused as well. `not_owner` makes the node
/// that forwarded it look for another one, in this version and the one before; `wrong_chain` tells a
/// caller that repeating does not help.
fn check_chain(headers: &HeaderMap, own: ChainId) -> Result<(), Problem> {
    let is_forwarded = headers.contains_key(FORWARDED);
    let mut given = headers.get_all(CHAIN_ID).iter();
    let what = match (given.next(), given.next()) {
        (Some(chain), None) if chain.as_bytes() == own.to_string().as_bytes() => return Ok(()),
        (None, _) if !is_forwarded => return Ok(()),
        (None, _) => format!("is missing: the request may be for another chain than {own}"),
        (Some(_), Some(_)) => "is given more than once; a request is for one chain".to_owned(),
        (Some(chain), None) => {
            let chain = String::from_utf8_lossy(chain.as_bytes());
            format!("{} is another chain than this node's, {own}", quoted(&chain))
        }
    };
    let code = if is_forwarded { ErrorCode::NotOwner } else { ErrorCode::WrongChain };
    Err(Problem::of_field(code, CHAIN_ID.as_str(), what))
}

/// A request that may have to be carried out at another node.
struct RoutedRequest {
    api: Api,
    caller: Caller,
    parts: Parts,
    body: Bytes,
    next: Next,
}

/// The result of one try.
enum TryOutcome {
    /// The answer to give.
    Answered(Response),
    /// That node does not own the submitter and did nothing; this is its answer.
    NotOwned(Response),
    /// Nothing was done: carry it out at this node.
    RunHere,
}

impl RoutedRequest {
    /// Carries it out at this node.
    async fn run_here(&self) -> Response {
        let request = Request::from_parts(self.parts.clone(), Body::from(self.body.clone()));
        self.next.clone().run(request).await
    }

    async fn run(&self, submitter: Submitter) -> Response {
        let (response, result) = self.run_somewhere(submitter).await;
        self.api.engine.metrics().forward_total.inc(result);
        response
    }

    async fn run_somewhere(&self, submitter: Submitter) -> (Response, ForwardResult) {
        let failed = |response| (response, ForwardResult::Failed);
        let engine = &self.api.engine;
        let (mut refusal, mut asked): (Option<Response>, Option<NodeId>) = (None, None);
        let mut looked_up = false;
        for _ in 0..TRIES_MAX {
            let place = match engine.place(submitter).await {
                Ok(place) => place,
                Err(error) => return failed(Problem::from(error).into_response()),
            };
            if !looked_up && place != Place::Here {
                looked_up = true;
                if let Some(response) = self.answer_to_repeat(&place).await {
                    return (response, ForwardResult::Here);
                }
            }
            let (tried, result) = match place {
                Place::Nowhere => return failed(Problem::draining().into_response()),
                // It was asked already. A node that holds the lease would answer the same again; one
                // that merely should have taken it, and did not, is passed over if this node can.
                Place::There(to) if asked.as_ref() == Some(&to.node) => {
                    if to.owns || !engine.serves(submitter) {
                        break;
                    }
                    (TryOutcome::RunHere, ForwardResult::Here)
                }
                Place::There(to) => {
                    asked = Some(to.node.clone());
                    self.forward(submitter, &to).await
                }
                Place::Here => (TryOutcome::RunHere, ForwardResult::Here),
            };
            let (tried, result) = match tried {
                TryOutcome::RunHere => (self.judge_own(self.run_here().await), ForwardResult::Here),
                TryOutcome::Answered(_) | TryOutcome::NotOwned(_) => (tried, result),
            };
            match tried {
                TryOutcome::Answered(response) => return (response, result),
                TryOutcome::NotOwned(response) => refusal = Some(response),
                TryOutcome::RunHere => {}
            }
            engine.misplaced(submitter);
        }
        failed(refusal.unwrap_or_else(|| Problem::draining().into_response()))
    }

    /// The answer to a create that was accepted before, at any node (I7): no other node is needed.
    async fn answer_to_repeat(&self, place: &Place) -> Option<Response> {
        if self.parts.uri.path() != path::TX {
            return None;
        }
        let key = key_of(&self.parts.headers).ok()?;
        let create = read_object(raw(&self.body).ok()?).ok()?;
        let chain = self.api.engine.chain_id();
        let request =
            CreateRequest::read(create, chain, key.as_deref(), self.caller.tenant()).ok()?;
        let mut response = match answer_to_known(&self.api, &self.caller, &request).await? {
            Ok(tx) => axum::Json(tx).into_response(),
            Err(problem) => problem.into_response(),
        };
        let owner = match place {
            Place::There(to) => Some(to.url.as_str()),
            Place::Here | Place::Nowhere => None,
        };
        set_owner(&mut response, owner, false);
        Some(response)
    }

    /// A node that turns out not to be the owner says so before it has done anything.
    fn judge_own(&self, mut response: Response) -> TryOutcome {
        let problem = response.extensions().get::<Problem>();
        if problem.is_some_and(|problem| problem.code == ErrorCode::NotOwner) {
            return TryOutcome::NotOwned(response);
        }
        let own = self.api.engine.own_url();
        set_owner(&mut response, own.as_ref().map(|url| url.as_str()), false);
        TryOutcome::Answered(response)
    }

    async fn forward(&self, submitter: Submitter, to: &Destination) -> (TryOutcome, ForwardResult) {
        let failed = |outcome| (outcome, ForwardResult::Failed);
        let Api { engine, peers, .. } = &self.api;
        let path = self.parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let posted = peers.forward(engine, to, path, &self.parts.headers, self.body.clone()).await;
        let posted = match posted {
            Ok(posted) => posted,
            Err(Unanswered::NotSent(why)) => {
                tracing::debug!(%submitter, node_id = to.node.as_str(), error = why, "owner not reached");
                engine.misplaced(submitter);
                return failed(match engine.serves(submitter) {
                    true => TryOutcome::RunHere,
                    // The account is known, only not here: it must not be called unknown.
                    false => {
                        TryOutcome::NotOwned(Problem::owner_unreached(&to.url).into_response())
                    }
                });
            }
            Err(Unanswered::Full) => {
                return failed(TryOutcome::Answered(Problem::too_many_forwarded().into_response()));
            }
            Err(Unanswered::NoAnswer(why)) => {
                engine.misplaced(submitter);
                let problem = Problem::no_answer_from_owner(why);
                return failed(TryOutcome::Answered(problem.into_response()));
            }
        };
        let outcome = match next_step(code_of(&posted), to) {
            NextStep::Answer => TryOutcome::Answered(to_response(posted, Some(&to.url))),
            NextStep::FindOwner => TryOutcome::NotOwned(to_response(posted, None)),
            NextStep::RunHere => TryOutcome::RunHere,
        };
        (outcome, ForwardResult::Forwarded)
    }
}

/// The next step after another node's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextStep {
    /// Pass the answer on.
    Answer,
    /// That node did nothing: look for the owner again.
    FindOwner,
    /// That node did nothing: carry it out at this node.
    RunHere,
}

/// The next step after an answer that is a problem with this code, or none.
pub(crate) fn next_step(code: Option<ErrorCode>, to: &Destination) -> NextStep {
    match code {
        // Preferred, but it has no key for the account.
        Some(ErrorCode::UnknownSubmitter) if !to.owns => NextStep::RunHere,
        Some(ErrorCode::NotOwner | ErrorCode::Draining) => NextStep::FindOwner,
        Some(_) | None => NextStep::Answer,
    }
}

/// The code of a problem of another node.
pub(crate) fn code_of(posted: &HttpResponse) -> Option<ErrorCode> {
    if !(400..600).contains(&posted.status) {
        return None;
    }
    serde_json::from_slice::<ProblemBody>(&posted.body).ok()?.known_code()
}

/// Another node's answer, with its body unchanged.
pub(crate) fn to_response(posted: HttpResponse, owner: Option<&str>) -> Response {
    let HttpResponse { status, headers, body } = posted;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    for name in ANSWER_HEADERS {
        response.headers_mut().extend(headers.get(&name).map(|value| (name, value.clone())));
    }
    let named = headers.get(OWNER).and_then(|url| url.to_str().ok());
    set_owner(&mut response, owner.or(named), true);
    response
}

/// Says on an answer which node gave it.
pub(crate) fn set_owner(response: &mut Response, owner: Option<&str>, forwarded: bool) {
    let headers = response.headers_mut();
    let url = owner.and_then(|url| HeaderValue::from_str(url).ok());
    headers.extend(url.map(|url| (OWNER, url)));
    if forwarded {
        headers.insert(FORWARDED, HeaderValue::from_static("1"));
    }
}

/// The submitter that a request is about, by the parameters of its route. `None` if any node can answer
/// it, also with what is wrong with it.
async fn submitter_of(api: &Api, parts: &mut Parts, body: &Bytes) -> Option<Submitter> {
    let chain_id = api.engine.chain_id();
    let params = Path::<HashMap<String, String>>::from_request_parts(parts, &()).await;
    let params = params.map(|Path(params)| params).unwrap_or_default();
    if let Some(address) = params.get("address") {
        return parse_address(address).ok().map(|address| Submitter::new(chain_id, address));
    }
    if let Some(tx_id) = params.get("txId") {
        let submitter = api.store.tx(parse_id(tx_id).ok()?).await.ok()??.submitter;
        // One of another chain: no node that this one knows can act on it, and this one says so.
        return (submitter.chain_id == chain_id).then_some(submitter);
    }
    // A simulation changes nothing; what is wrong with a query, any node can say.
    let query: Query<Vec<(String, String)>> = Query::try_from_uri(&parts.uri).ok()?;
    let is_create = |(name, value): &(String, String)| name != "simulate" || value == "false";
    if parts.uri.path() != path::TX || !query.iter().all(is_create) {
        return None;
    }
    let create = raw(body).ok()?;
    match Fields::of(create, String::new()).ok()?.text("submitter").ok()? {
        Some(address) => {
            parse_address(&address).ok().map(|address| Submitter::new(chain_id, address))
        }
        // A signed transaction is its signer's.
        None => {
            let request = CreateRequest::read(read_object(create).ok()?, chain_id, None, None);
            request.ok().map(|request| request.submitter)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(headers: &[(HeaderName, &str)]) -> Option<(ErrorCode, String)> {
        let mut given = HeaderMap::new();
        for (name, value) in headers {
            given.append(name, HeaderValue::from_str(value).unwrap());
        }
        let refused = check_chain(&given, ChainId::new(7).unwrap()).err()?;
        assert_eq!(refused.body.field.as_deref(), Some(CHAIN_ID.as_str()));
        Some((refused.code, refused.body.detail))
    }

    #[test]
    fn chain_id_header_that_is_repeated_is_refused_even_if_its_values_agree() {
        assert_eq!(refusal(&[(CHAIN_ID, "7")]), None);
        for second in ["7", "8"] {
            let twice = [(CHAIN_ID, "7"), (CHAIN_ID, second)];
            let (code, detail) = refusal(&twice).unwrap();
            assert_eq!(code, ErrorCode::WrongChain);
            assert!(detail.contains("more than once"), "{detail}");
            let (code, _) = refusal(&[&twice[..], &[(FORWARDED, "1")]].concat()).unwrap();
            assert_eq!(
                code,
                ErrorCode::NotOwner,
                "the node that forwarded it looks for another one"
            );
        }
    }

    #[test]
    fn private_key_in_the_chain_id_header_is_not_repeated() {
        let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        for value in [key.to_owned(), format!("0x{key}")] {
            let direct = refusal(&[(CHAIN_ID, &value)]).unwrap();
            let forwarded = refusal(&[(CHAIN_ID, &value), (FORWARDED, "1")]).unwrap();
            for (_, detail) in [direct, forwarded] {
                assert!(!detail.contains(&key[..20]), "{detail}");
            }
        }
    }
}
