//! Any node takes any request: what is about another node's submitter is asked there, once.
//!
//! Routing is never needed for correctness: whoever carries a request out needs the lease (I1). A
//! request that was passed on is never passed on again, so that nothing goes in circles.

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_engine::{Destination, Place};
use tollgate_http::HttpResponse;
use tollgate_model::ids::parse_address;
use tollgate_model::{ChainId, NodeId, Submitter};

use super::batch::BATCH_MAX;
use super::body::{CreateBody, Fields, quoted, raw, read_object, read_whole};
use super::code::Code;
use super::create::answer_to_known;
use super::idempotency::{WITH_REQUEST_ID_BYTES_MAX, key_of};
use super::peers::Unanswered;
use super::problem::Problem;
use super::read::parse_id;
use super::{Api, BODY_BYTES_MAX};

/// On a request: another node has passed it on. On an answer: another node gave it.
pub(crate) const FORWARDED: HeaderName = HeaderName::from_static(tollgate_client::FORWARDED);
/// On an answer: where the node is that works for the submitter. Whoever goes there next saves a step.
pub(crate) const OWNER: HeaderName = HeaderName::from_static(tollgate_client::OWNER);
/// On a request: the chain that it is for. Every request that is passed on says so.
pub(crate) const CHAIN_ID: HeaderName = HeaderName::from_static(tollgate_client::CHAIN_ID);
/// Where creates are taken.
const PATH_CREATE: &str = "/api/v1/tx";
/// Where batches are taken.
pub(crate) const PATH_BATCH: &str = "/api/v1/tx/batch";
/// How often a request is brought somewhere before its caller is told to come back: the place that is
/// known, and another one if it has moved meanwhile (I13).
const TRIES_MAX: u32 = 3;

/// The largest body of a request that another node has passed on (I13): the largest that a caller may
/// send, and a request id for each item of a batch.
const FORWARDED_BODY_BYTES_MAX: usize = BODY_BYTES_MAX + BATCH_MAX * WITH_REQUEST_ID_BYTES_MAX;

/// What an answer of another node keeps.
const KEPT: [HeaderName; 2] = [header::CONTENT_TYPE, header::RETRY_AFTER];

/// Carries a request out where it belongs.
pub(crate) async fn to_the_owner(
    State(api): State<Api>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    if let Err(problem) = check_chain(request.headers(), api.engine.chain_id()) {
        return problem.into_response();
    }
    let alone = api.engine.is_alone() && !api.engine.is_draining();
    let passed_on = request.headers().contains_key(FORWARDED);
    let body_bytes_max = if passed_on { FORWARDED_BODY_BYTES_MAX } else { BODY_BYTES_MAX };
    if let Err(problem) = check_declared_length(request.headers(), body_bytes_max) {
        return problem.into_response();
    }
    if passed_on {
        DefaultBodyLimit::max(FORWARDED_BODY_BYTES_MAX).apply(&mut request);
    }
    if alone || passed_on {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let whole = Request::from_parts(parts.clone(), body);
    let body = match read_whole(whole, &()).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let subject = subject(&api, &parts, &body).await;
    let errand = Errand { api, parts, body, next };
    match subject {
        Some(submitter) => errand.carry_out(submitter).await,
        None => errand.here().await,
    }
}

/// Refuses a body that says to be too large before any of it has arrived.
fn check_declared_length(headers: &HeaderMap, bytes_max: usize) -> Result<(), Problem> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    match declared.and_then(|length| length.parse::<u64>().ok()) {
        Some(declared) if declared > bytes_max as u64 => {
            let what = format!("{declared} bytes are more than {bytes_max}");
            Err(Problem::of_field(Code::BodyTooLarge, "Content-Length", what))
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses what is for another chain, before anything is read or done: the same account exists on
/// every chain, so nothing else in a request would tell. A request that was passed on by a node which
/// does not say the chain (one of an older version) may be for any, and is refused as well.
/// `not_owner` makes a node that passed it on look for another one, this version's and the one before;
/// a caller is told that no repetition helps.
fn check_chain(headers: &HeaderMap, own: ChainId) -> Result<(), Problem> {
    let passed_on = headers.contains_key(FORWARDED);
    let mut given = headers.get_all(CHAIN_ID).iter();
    let what = match (given.next(), given.next()) {
        (Some(chain), None) if chain.as_bytes() == own.to_string().as_bytes() => return Ok(()),
        (None, _) if !passed_on => return Ok(()),
        (None, _) => format!("is missing: the request may be for another chain than {own}"),
        (Some(_), Some(_)) => "is given more than once; a request is for one chain".to_owned(),
        (Some(chain), None) => {
            let chain = String::from_utf8_lossy(chain.as_bytes());
            format!("{} is another chain than this node's, {own}", quoted(&chain))
        }
    };
    let code = if passed_on { Code::NotOwner } else { Code::WrongChain };
    Err(Problem::of_field(code, CHAIN_ID.as_str(), what))
}

/// A request that may belong elsewhere.
struct Errand {
    api: Api,
    parts: Parts,
    body: Bytes,
    next: Next,
}

/// What came of one try.
enum Tried {
    /// Its answer.
    Done(Response),
    /// Nothing was done there; this is what was said.
    Moved(Response),
    /// Nothing was done there: do it here.
    NotThere,
}

impl Errand {
    /// As if there were no other node.
    async fn here(&self) -> Response {
        let request = Request::from_parts(self.parts.clone(), Body::from(self.body.clone()));
        self.next.clone().run(request).await
    }

    async fn carry_out(&self, submitter: Submitter) -> Response {
        let engine = &self.api.engine;
        let (mut said, mut asked): (Option<Response>, Option<NodeId>) = (None, None);
        let mut looked_up = false;
        for _ in 0..TRIES_MAX {
            let place = match engine.place(submitter).await {
                Ok(place) => place,
                Err(error) => return Problem::from(error).into_response(),
            };
            if !looked_up && place != Place::Here {
                looked_up = true;
                if let Some(response) = self.known(&place).await {
                    return response;
                }
            }
            let tried = match place {
                Place::Nowhere => return Problem::draining().into_response(),
                // It was there already. Who holds the lease will say the same again; who merely should
                // have taken it, and did not, has had its chance, if this node can take it instead.
                Place::There(to) if asked.as_ref() == Some(&to.node) => {
                    if to.owns || !engine.serves(submitter) {
                        break;
                    }
                    Tried::NotThere
                }
                Place::There(to) => {
                    asked = Some(to.node.clone());
                    self.pass_on(submitter, &to).await
                }
                Place::Here => Tried::NotThere,
            };
            let tried = match tried {
                Tried::NotThere => self.judge_own(self.here().await),
                Tried::Done(_) | Tried::Moved(_) => tried,
            };
            match tried {
                Tried::Done(response) => return response,
                Tried::Moved(response) => said = Some(response),
                Tried::NotThere => {}
            }
            engine.misplaced(submitter);
        }
        said.unwrap_or_else(|| Problem::draining().into_response())
    }

    /// The answer to a create that was accepted before, by whichever node (I7): nobody else has to be
    /// asked for it.
    async fn known(&self, place: &Place) -> Option<Response> {
        if self.parts.uri.path() != PATH_CREATE {
            return None;
        }
        let key = key_of(&self.parts.headers).ok()?;
        let body: CreateBody = read_object(raw(&self.body).ok()?).ok()?;
        let asked = body.read(self.api.engine.chain_id(), key.as_deref()).ok()?;
        let mut response = match answer_to_known(&self.api, &asked).await? {
            Ok(tx) => axum::Json(tx).into_response(),
            Err(problem) => problem.into_response(),
        };
        let owner = match place {
            Place::There(to) => Some(to.url.as_str()),
            Place::Here | Place::Nowhere => None,
        };
        answered_by(&mut response, owner, false);
        Some(response)
    }

    /// A node that was let down by what it believed says so before it has done anything.
    fn judge_own(&self, mut response: Response) -> Tried {
        let problem = response.extensions().get::<Problem>();
        if problem.is_some_and(|problem| problem.code == Code::NotOwner) {
            return Tried::Moved(response);
        }
        let own = self.api.engine.own_url();
        answered_by(&mut response, own.as_ref().map(|url| url.as_str()), false);
        Tried::Done(response)
    }

    async fn pass_on(&self, submitter: Submitter, to: &Destination) -> Tried {
        let Api { engine, peers, .. } = &self.api;
        let path = self.parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let posted = peers.ask(engine, to, path, &self.parts.headers, self.body.clone()).await;
        let posted = match posted {
            Ok(posted) => posted,
            Err(Unanswered::NotAsked(why)) => {
                tracing::debug!(%submitter, node = to.node.as_str(), why, "not reached");
                engine.misplaced(submitter);
                return match engine.serves(submitter) {
                    true => Tried::NotThere,
                    // The account is known, only not here: it must not be called unknown.
                    false => Tried::Moved(Problem::owner_unreached(&to.url).into_response()),
                };
            }
            Err(Unanswered::Full) => {
                return Tried::Done(Problem::too_many_forwarded().into_response());
            }
            Err(Unanswered::Unheard(why)) => {
                engine.misplaced(submitter);
                return Tried::Done(Problem::unheard(why).into_response());
            }
        };
        match belongs(code_of(&posted), to) {
            Belongs::There => Tried::Done(passed_back(posted, Some(&to.url))),
            Belongs::Elsewhere => Tried::Moved(passed_back(posted, None)),
            Belongs::Here => Tried::NotThere,
        }
    }
}

/// What a node's answer says of where a request belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Belongs {
    /// To the node that was asked: its answer stands.
    There,
    /// To another one; nothing was done.
    Elsewhere,
    /// To whoever asked: nothing was done.
    Here,
}

/// What it says if it is a problem with this code, or none.
pub(crate) fn belongs(code: Option<Code>, to: &Destination) -> Belongs {
    match code {
        // Preferred, but it has no key for it.
        Some(Code::UnknownSubmitter) if !to.owns => Belongs::Here,
        Some(Code::NotOwner | Code::Draining) => Belongs::Elsewhere,
        Some(_) | None => Belongs::There,
    }
}

/// The code of a problem of another node.
pub(crate) fn code_of(posted: &HttpResponse) -> Option<Code> {
    #[derive(Deserialize)]
    struct Said {
        code: String,
    }
    let (client, server) = (StatusCode::BAD_REQUEST.as_u16(), 599);
    if !(client..=server).contains(&posted.status) {
        return None;
    }
    serde_json::from_slice::<Said>(&posted.body).ok().and_then(|said| Code::of(&said.code))
}

/// Another node's answer, word for word.
fn passed_back(posted: HttpResponse, owner: Option<&str>) -> Response {
    let HttpResponse { status, headers, body } = posted;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    for name in KEPT {
        response.headers_mut().extend(headers.get(&name).map(|value| (name, value.clone())));
    }
    let said = headers.get(OWNER).and_then(|url| url.to_str().ok());
    answered_by(&mut response, owner.or(said), true);
    response
}

/// Says on an answer who gave it.
pub(crate) fn answered_by(response: &mut Response, owner: Option<&str>, forwarded: bool) {
    let headers = response.headers_mut();
    let url = owner.and_then(|url| HeaderValue::from_str(url).ok());
    headers.extend(url.map(|url| (OWNER, url)));
    if forwarded {
        headers.insert(FORWARDED, HeaderValue::from_static("1"));
    }
}

/// The submitter that a request is about. None if any node can answer it, also with what is wrong.
async fn subject(api: &Api, parts: &Parts, body: &Bytes) -> Option<Submitter> {
    let words: Vec<&str> = parts.uri.path().split('/').skip(1).collect();
    match words[..] {
        ["api", "v1", "tx"] => {
            // A simulation changes nothing; what is wrong with a query, any node can say.
            let query: Query<Vec<(String, String)>> = Query::try_from_uri(&parts.uri).ok()?;
            let is_create =
                |(name, value): &(String, String)| name != "simulate" || value == "false";
            query.iter().all(is_create).then(|| of_create(api, body)).flatten()
        }
        ["api", "v1", "tx", tx_id, _action] => {
            let tx_id = parse_id(tx_id).ok()?;
            let submitter = api.store.tx(tx_id).await.ok()??.submitter;
            // Another chain's: no node that this one knows can do it, and this one says so.
            (submitter.chain_id == api.engine.chain_id()).then_some(submitter)
        }
        ["api", "v1", "submitters", address, _, ..] => {
            let address = parse_address(address).ok()?;
            Some(Submitter::new(api.engine.chain_id(), address))
        }
        _ => None,
    }
}

/// Only as much of a create is read as it takes.
fn of_create(api: &Api, body: &Bytes) -> Option<Submitter> {
    let chain_id = api.engine.chain_id();
    let body = raw(body).ok()?;
    match Fields::of(body, String::new()).ok()?.text("submitter").ok()? {
        Some(address) => {
            parse_address(&address).ok().map(|address| Submitter::new(chain_id, address))
        }
        // A signed transaction is its signer's.
        None => {
            let body: CreateBody = read_object(body).ok()?;
            body.read(chain_id, None).ok().map(|asked| asked.submitter)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(headers: &[(HeaderName, &str)]) -> Option<(Code, String)> {
        let mut given = HeaderMap::new();
        for (name, value) in headers {
            given.append(name, HeaderValue::from_str(value).unwrap());
        }
        let refused = check_chain(&given, ChainId::new(7).unwrap()).err()?;
        assert_eq!(refused.field.as_deref(), Some(CHAIN_ID.as_str()));
        Some((refused.code, refused.detail))
    }

    #[test]
    fn chain_id_header_that_is_repeated_is_refused_even_if_its_values_agree() {
        assert_eq!(refusal(&[(CHAIN_ID, "7")]), None);
        for second in ["7", "8"] {
            let twice = [(CHAIN_ID, "7"), (CHAIN_ID, second)];
            let (code, detail) = refusal(&twice).unwrap();
            assert_eq!(code, Code::WrongChain);
            assert!(detail.contains("more than once"), "{detail}");
            let (code, _) = refusal(&[&twice[..], &[(FORWARDED, "1")]].concat()).unwrap();
            assert_eq!(code, Code::NotOwner, "whoever passed it on looks for another node");
        }
    }

    #[test]
    fn private_key_in_the_chain_id_header_is_not_repeated() {
        let key = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        for value in [key.to_owned(), format!("0x{key}")] {
            let direct = refusal(&[(CHAIN_ID, &value)]).unwrap();
            let passed_on = refusal(&[(CHAIN_ID, &value), (FORWARDED, "1")]).unwrap();
            for (_, detail) in [direct, passed_on] {
                assert!(!detail.contains(&key[..20]), "{detail}");
            }
        }
    }
}
