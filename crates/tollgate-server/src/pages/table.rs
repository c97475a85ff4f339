//! The one table of all pages: it makes their routes, says what each of them needs, and tells pages from the API.
//!
//! A page that is not in the table does not exist, and one that is in it is guarded before its handler runs.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use tollgate_model::access::Role;

use super::layout::error_page;
use super::{
    actions, assets, list, live, login, overview, search, submitter, submitters, tx, viewer,
};
use crate::http::{AnsweredTo, Chains, Needed, is_like};

/// A page: method, path, what it needs, and its handler.
pub(crate) struct PageRoute {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) needed: Needed,
    handler: fn() -> MethodRouter<Chains>,
}

/// A session of a key with this role.
const OPERATE: Needed = Needed::AnyOf(&[Role::Operate]);

const fn page(
    method: &'static str,
    path: &'static str,
    needed: Needed,
    handler: fn() -> MethodRouter<Chains>,
) -> PageRoute {
    PageRoute { method, path, needed, handler }
}

/// All pages. `HEAD` is `GET`. Forms are sent with `POST`.
pub(crate) const PAGES: &[PageRoute] = &[
    page("GET", "/", OPERATE, || get(overview::page)),
    page("GET", "/tx", OPERATE, || get(list::page)),
    page("GET", "/tx/{tx_id}", OPERATE, || get(tx::page)),
    page("GET", "/tx/{tx_id}/{action}", OPERATE, || get(actions::confirm_tx)),
    page("POST", "/tx/{tx_id}/{action}", OPERATE, || post(actions::act_on_tx)),
    page("GET", "/submitters", OPERATE, || get(submitters::page)),
    page("GET", "/submitters/{chain_id}/{address}", OPERATE, || get(submitter::page)),
    page("GET", "/submitters/{chain_id}/{address}/{action}", OPERATE, || {
        get(actions::confirm_submitter)
    }),
    page("POST", "/submitters/{chain_id}/{address}/{action}", OPERATE, || {
        post(actions::act_on_submitter)
    }),
    page("GET", "/search", OPERATE, || get(search::page)),
    page("GET", "/live", OPERATE, || get(live::events)),
    page("GET", "/login", Needed::Public, || get(login::form)),
    page("POST", "/login", Needed::Public, || post(login::log_in)),
    page("POST", "/logout", OPERATE, || post(login::log_out)),
    page("GET", "/assets/{name}", Needed::Public, || get(assets::asset)),
];

/// Returns whether a request is for a page, and not for the API.
pub(crate) fn is_page(path: &str) -> bool {
    PAGES.iter().any(|page| is_like(page.path, path))
}

/// Returns whether a path takes forms, which are no JSON.
pub(crate) fn takes_forms(path: &str) -> bool {
    PAGES.iter().any(|page| page.method == "POST" && is_like(page.path, path))
}

/// The routes of all pages, each behind its guard.
pub(super) fn routes(chains: &Chains) -> Router<Chains> {
    PAGES.iter().fold(Router::new(), |router, page| {
        let state = Guard { chains: chains.clone(), needed: page.needed };
        router.route(page.path, (page.handler)().layer(from_fn_with_state(state, guard)))
    })
}

#[derive(Clone)]
struct Guard {
    chains: Chains,
    needed: Needed,
}

/// Lets a request through that has the session that its page needs, and leaves the viewer among the extensions.
async fn guard(
    State(Guard { chains, needed }): State<Guard>,
    request: Request,
    next: Next,
) -> Response {
    let Needed::AnyOf(roles) = needed else { return next.run(request).await };
    let (mut parts, body) = request.into_parts();
    if let Err(problem) = viewer::refuse_callers_listener(&parts) {
        return problem.into_response();
    }
    let viewer = match viewer::find(&chains, &parts).await {
        Ok(Some(viewer)) => viewer,
        Ok(None) => return to_login(&parts.uri).into_response(),
        Err(problem) => return error_page(&chains, None, &problem),
    };
    let counted = viewer.count();
    let mut response = match counted.check().and_then(|()| viewer.caller.require(roles)) {
        Err(problem) => error_page(&chains, None, &problem),
        Ok(()) => {
            parts.extensions.insert(viewer.clone());
            next.run(Request::from_parts(parts, body)).await
        }
    };
    counted.write(response.headers_mut());
    let key = viewer.caller.key_id().cloned();
    key.map(|key| response.extensions_mut().insert(AnsweredTo(key)));
    response
}

/// The login, which leads back to the page that was asked for.
fn to_login(uri: &Uri) -> Redirect {
    let asked = uri.path_and_query().map_or("/", |path| path.as_str());
    Redirect::to(&tollgate_api::path::with_query("/login", &[("next", Some(asked.to_owned()))]))
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn login_leads_back_to_the_page_that_was_asked_for() {
        let response = to_login(&Uri::from_static("/tx?state=STUCK")).into_response();
        assert_eq!(response.headers()[header::LOCATION], "/login?next=%2Ftx%3Fstate%3DSTUCK");
    }

    #[test]
    fn path_is_a_page_only_if_the_table_has_it() {
        for path in ["/", "/tx", "/tx/0193", "/tx/0193/cancel", "/submitters/7/0xab/pause"] {
            assert!(is_page(path), "{path}");
        }
        for path in ["/tx/", "/tx/a/b/c", "/docs", "/api/v1/tx", "/login/x", "/assets", "//"] {
            assert!(!is_page(path), "{path}");
        }
        assert!(takes_forms("/login") && takes_forms("/tx/0193/cancel"));
        assert!(!takes_forms("/tx/0193") && !takes_forms("/search"));
    }

    #[test]
    fn every_page_is_documented_with_what_it_needs() {
        let document = include_str!("../../../../docs/access.md");
        let needed = |needed| if needed == Needed::Public { "-" } else { "`operate`" };
        for page in PAGES {
            let row = format!("| `{} {}` | {} |", page.method, page.path, needed(page.needed));
            assert!(document.lines().any(|line| line == row), "docs/access.md lacks {row}");
        }
        let rows = document.lines().filter(|line| {
            let path = line.strip_prefix("| `").and_then(|rest| rest.split_once(' '));
            path.is_some_and(|(_, rest)| is_page(rest.split('`').next().unwrap_or_default()))
        });
        assert_eq!(rows.count(), PAGES.len(), "docs/access.md lists pages that do not exist");
    }
}
