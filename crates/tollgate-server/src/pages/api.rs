//! Calls of this node's own API, as the viewer of a page: what a page shows and does is what the API would
//! have answered, with the same checks, the same owner of the account, and the same errors.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate_api::{ErrorCode, Problem as ProblemBody};

use super::viewer::Viewer;
use crate::http::{Chains, Needed, Problem, dispatch, needed};

/// The longest answer that is read (I13): a page of 1,000 transactions with payloads is shorter.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The API, as a viewer may use it.
pub(crate) struct Api<'a> {
    pub(crate) chains: &'a Chains,
    pub(crate) viewer: &'a Viewer,
}

impl Api<'_> {
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        self.call(Method::GET, path, Body::empty()).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Problem> {
        let body = serde_json::to_vec(body).map_err(|_| Problem::defect())?;
        self.call(Method::POST, path, Body::from(body)).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Body,
    ) -> Result<T, Problem> {
        // The layer that judges calls from outside is not passed again.
        let route = path.split('?').next().unwrap_or_default();
        if let Needed::AnyOf(roles) = needed(&method, route)? {
            self.viewer.caller.require(roles)?;
        }
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        let mut request = request.map_err(|_| Problem::defect())?;
        self.viewer.sign(&mut request);
        let mut response = dispatch(self.chains, request).await?;
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            return Err(problem);
        }
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| Problem::defect())?.to_bytes();
        if !status.is_success() {
            return Err(of_other_node(status, &body));
        }
        serde_json::from_slice(&body).map_err(|_| Problem::defect())
    }
}

/// A problem that another node answered with.
fn of_other_node(status: StatusCode, body: &[u8]) -> Problem {
    let problem = serde_json::from_slice::<ProblemBody>(body).ok();
    let known = problem.and_then(|body| Some((ErrorCode::of(&body.code)?, body)));
    match known {
        Some((code, body)) => Problem { code, body: Box::new(body) },
        None => Problem::new(ErrorCode::Unavailable, format!("another node answered {status}")),
    }
}
