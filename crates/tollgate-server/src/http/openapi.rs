//! The OpenAPI document: what all routes have in common, and the problems of each.

use std::collections::BTreeMap;

use axum::http::Method;
use tollgate_api::limit::{BATCH_ITEMS_MAX, BODY_BYTES_MAX, METADATA_BYTES_MAX};
use tollgate_api::{ErrorCode, Problem};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Response,
    ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use super::access::table::{Needed, needed};
use super::forward::{FORWARDED, OWNER};
use super::middleware::{TRACE_ID, TRACE_ID_MAX};
use super::{LONG_POLL_LIMIT, TIME_LIMIT};

/// Declares which problems a route can answer with, besides those that every route can. `UnreadableBody`
/// stands for all problems of a body, `Busy` for all of a request to the owner of a submitter.
macro_rules! may_fail {
    ($($name:ident: $($code:ident),*;)+) => {$(
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::Response>,
            > {
                $crate::http::openapi::problems(&[$(tollgate_api::ErrorCode::$code),*])
            }
        }
    )+};
}
pub(crate) use may_fail;

/// The problems of every route.
const ANYWHERE: [ErrorCode; 10] = [
    ErrorCode::InvalidRequest,
    ErrorCode::HeadTooLarge,
    ErrorCode::HostNotAllowed,
    ErrorCode::CrossOrigin,
    ErrorCode::Internal,
    ErrorCode::Timeout,
    ErrorCode::TooManyConnections,
    ErrorCode::Unauthenticated,
    ErrorCode::Forbidden,
    ErrorCode::RateLimited,
];
/// The problems of every route with a body.
const WITH_BODY: [ErrorCode; 6] = [
    ErrorCode::InvalidJson,
    ErrorCode::UnreadableBody,
    ErrorCode::BodyTooLarge,
    ErrorCode::InvalidBody,
    ErrorCode::UnsupportedMediaType,
    ErrorCode::RequestTimeout,
];
/// The problems of every route that the owner of a submitter carries out.
const OF_OWNER: [ErrorCode; 7] = [
    ErrorCode::WrongChain,
    ErrorCode::UnknownSubmitter,
    ErrorCode::NotOwner,
    ErrorCode::Draining,
    ErrorCode::Busy,
    ErrorCode::Unavailable,
    ErrorCode::StoreUnavailable,
];

/// A response for each status, with an example for each code.
pub(crate) fn problems(codes: &[ErrorCode]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    // One code of a group stands for all of it.
    let of_owner = OF_OWNER.iter().filter(|_| codes.contains(&ErrorCode::Busy));
    let with_body = WITH_BODY.iter().filter(|_| codes.contains(&ErrorCode::UnreadableBody));
    for code in codes.iter().chain(of_owner).chain(with_body).chain(&ANYWHERE) {
        let listed = by_status.entry(code.status()).or_default();
        if !listed.contains(code) {
            listed.push(*code);
        }
    }
    let respond = |(status, codes): (u16, Vec<ErrorCode>)| {
        (status.to_string(), RefOr::T(problem_response(&codes)))
    };
    by_status.into_iter().map(respond).collect()
}

fn problem_response(codes: &[ErrorCode]) -> Response {
    let names: Vec<String> = codes.iter().map(|code| format!("`{}`", code.name())).collect();
    let example = |code: &ErrorCode| {
        let place = format!("#/components/examples/{}", code.name());
        (code.name(), RefOr::<Example>::Ref(Ref::new(place)))
    };
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(Problem::name())))
        .examples_from_iter(codes.iter().map(example));
    let mut response = ResponseBuilder::new()
        .description(names.join(", "))
        .content("application/problem+json", content.build());
    if codes.iter().any(|code| code.is_retryable()) {
        let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
        let header = HeaderBuilder::new()
            .schema(Some(seconds))
            .description(Some("When to try again, in seconds, if the problem is retryable."));
        response = response.header("Retry-After", header.build());
    }
    response.build()
}

/// The example of a problem with this code.
fn example(code: ErrorCode) -> Example {
    let mut problem = Problem::new(code, code.title());
    problem.trace_id = "0198c0de-7a11-7000-8000-00000000beef".to_owned();
    let body = serde_json::to_value(problem);
    ExampleBuilder::new().summary(code.title()).value(body.ok()).build()
}

/// The document before any route has added to it.
pub(crate) fn base() -> OpenApi {
    let tag =
        |name: &str, about: &str| TagBuilder::new().name(name).description(Some(about)).build();
    let info = InfoBuilder::new()
        .title("Tollgate")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(description()))
        .license(Some(
            LicenseBuilder::new()
                .name("MIT OR Apache-2.0")
                .identifier(Some("MIT OR Apache-2.0"))
                .build(),
        ));
    let mut components = Components::new();
    let mut schemas = vec![(Problem::name().into_owned(), Problem::schema())];
    Problem::schemas(&mut schemas);
    components.schemas.extend(schemas);
    let examples =
        ErrorCode::ALL.iter().map(|code| (code.name().to_owned(), example(*code).into()));
    components.examples.extend(examples);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("tg_live_…");
    let about =
        "An API key: `tollgate api-key new` makes one. Nodes that run with `--no-auth` need none.";
    let bearer = bearer.description(Some(about)).build();
    components.security_schemes.insert("apiKey".to_owned(), RefOr::T(SecurityScheme::Http(bearer)));
    OpenApiBuilder::new()
        .security(Some([SecurityRequirement::new("apiKey", Vec::<String>::new())]))
        .info(info)
        .tags(Some([
            tag("transactions", "Create transactions and read them back."),
            tag("actions", "Step in where a transaction does not move, or is not wanted any more."),
            tag("feed", "Learn of outcomes, each exactly once, in order."),
            tag("reports", "Sums over many transactions."),
            tag("submitters", "The accounts that send."),
            tag("pools", "Sets of accounts that share the load."),
            tag("chains", "The chains that a node serves."),
            tag("nodes", "The processes that share the database."),
            tag("keys", "What callers show, and what it allows."),
            tag("nonces", "For callers that sign and send by themselves."),
            tag("health", "For load balancers and supervisors."),
            tag("docs", "This document, and pages about it."),
        ]))
        .components(Some(components))
        .build()
}

fn description() -> String {
    format!(
        "Transactions for EVM chains, from intent to finality.\n\n\
         Names are camelCase. Amounts are decimal text (0x-hex is taken too), times RFC 3339 in \
         UTC. Errors are `application/problem+json` with a `code` to switch on; each code has a \
         page at `/docs/errors/{{code}}`. Unknown fields and parameters are refused.\n\n\
         Limits: a body has at most {BODY_BYTES_MAX} bytes, a batch {BATCH_ITEMS_MAX} items, metadata \
         {METADATA_BYTES_MAX} bytes as text. A request is answered within {} s, a long poll within {} s, \
         one with `Prefer: wait` that much later; what takes longer is answered with 503 `timeout`.",
        TIME_LIMIT.as_secs(),
        LONG_POLL_LIMIT.as_secs(),
    )
}

/// Adds what all routes have in common.
pub(crate) fn complete(mut document: OpenApi) -> OpenApi {
    for (path, item) in &mut document.paths.paths {
        with_access(path, item);
        item.post.as_mut().into_iter().for_each(with_owner);
        operations(item).for_each(with_trace_id);
    }
    document
}

/// Whatever is posted goes to the node that works for the submitter.
fn with_owner(operation: &mut Operation) {
    let owner = "Where the node is that works for the submitter, if one is known: go there next.";
    let forwarded = "`1` if another node had to be asked.";
    for (name, about) in [(OWNER.as_str(), owner), (FORWARDED.as_str(), forwarded)] {
        with_header(operation, name, about);
    }
}

/// Says which key each call needs.
fn with_access(path: &str, item: &mut PathItem) {
    let methods = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PUT, &mut item.put),
        (Method::DELETE, &mut item.delete),
        (Method::PATCH, &mut item.patch),
    ];
    for (method, operation) in methods {
        let Some(operation) = operation.as_mut() else { continue };
        let sentence = match needed(&method, path) {
            Ok(Needed::AnyOf(roles)) => {
                let names: Vec<String> =
                    roles.iter().map(|role| format!("`{}`", role.name())).collect();
                format!("Needs a key with the role {}.", names.join(" or "))
            }
            // A route that is missing in the table fails a test.
            Ok(Needed::Public) | Err(_) => {
                operation.security = Some(vec![SecurityRequirement::default()]);
                for status in ["401", "429"] {
                    operation.responses.responses.remove(status);
                }
                "Needs no key.".to_owned()
            }
        };
        let about = operation.description.take().filter(|about| !about.is_empty());
        let about = about.map(|about| format!("{about}\n\n"));
        operation.description = Some(format!("{}{sentence}", about.unwrap_or_default()));
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.delete, &mut item.patch]
        .into_iter()
        .filter_map(Option::as_mut)
}

fn with_trace_id(operation: &mut Operation) {
    let about = format!(
        "The trace id: a name for this one call. Comes back. Made up if it is left out, longer than \
         {TRACE_ID_MAX} bytes, or looks like a secret."
    );
    let parameter = ParameterBuilder::new()
        .name(TRACE_ID.as_str())
        .parameter_in(ParameterIn::Header)
        .description(Some(about))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)));
    operation.parameters.get_or_insert_default().push(parameter.build().into());
    let about =
        "The trace id: the name of this one call, as in `traceId` of a problem and in the log.";
    with_header(operation, TRACE_ID.as_str(), about);
}

/// On every answer.
fn with_header(operation: &mut Operation, name: &str, about: &str) {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            let header = HeaderBuilder::new().schema(Some(text.clone())).description(Some(about));
            response.headers.insert(name.to_owned(), header.build().into());
        }
    }
}
