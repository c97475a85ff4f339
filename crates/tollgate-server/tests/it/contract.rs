//! Checks every answer that a test gets against the OpenAPI document.

use std::sync::LazyLock;

use axum::http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

/// The document that nodes serve.
pub(crate) static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&tollgate_server::openapi()).unwrap());

/// Every operation: path, method, description.
pub(crate) fn operations() -> Vec<(&'static str, &'static str, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    operations.collect()
}

/// Panics if an answer is not one that the document has.
pub(crate) fn check(
    method: &Method,
    path: &str,
    query: Option<&str>,
    status: StatusCode,
    headers: &HeaderMap,
    text: &str,
) {
    let method = method.as_str().to_lowercase();
    let found = operations().into_iter().find(|(p, m, _)| *m == method && matches(p, path));
    let Some((_, _, operation)) = found else {
        use StatusCode as S;
        let unknown = [S::NOT_FOUND, S::METHOD_NOT_ALLOWED, S::UNAUTHORIZED];
        assert!(unknown.contains(&status), "{method} {path} is not documented, and gave {status}");
        return;
    };
    let what = format!("{method} {path}: {status} {text}");
    let response = &operation["responses"][status.as_str()];
    assert!(response.is_object(), "undocumented status of {what}");
    if status == StatusCode::NO_CONTENT {
        assert!(text.is_empty(), "{what}");
        return;
    }
    let content_type = headers["content-type"].to_str().unwrap();
    let content_type = content_type.split(';').next().unwrap();
    let content = &response["content"][content_type];
    assert!(content.is_object(), "undocumented {content_type} of {what}");
    assert!(headers.contains_key("x-request-id"), "{what}");
    if content_type.ends_with("json") {
        let body: Value = serde_json::from_str(text).unwrap();
        if let Err(why) = conforms(&body, &content["schema"]) {
            panic!("{why}, in {what}");
        }
        if content_type == "application/problem+json" {
            let code = body["code"].as_str().unwrap();
            assert!(content["examples"][code].is_object(), "undocumented code of {what}");
            let retry = headers.contains_key("retry-after");
            assert_eq!(body["retryable"], retry, "{what}");
            assert!(!retry || response["headers"]["Retry-After"].is_object(), "{what}");
        }
    }
    if status.is_success() {
        for pair in query.into_iter().flat_map(|query| query.split('&')) {
            let name = pair.split('=').next().unwrap();
            assert!(parameter(operation, name).is_some(), "undocumented {name} of {what}");
        }
    }
}

/// An operation's parameter in the query.
pub(crate) fn parameter(operation: &'static Value, name: &str) -> Option<&'static Value> {
    let parameters = operation["parameters"].as_array().unwrap();
    parameters.iter().find(|parameter| parameter["name"] == name && parameter["in"] == "query")
}

/// A path is one of a route; a parameter is never one of its siblings' words.
fn matches(route: &str, path: &str) -> bool {
    let (route, path): (Vec<_>, Vec<_>) = (route.split('/').collect(), path.split('/').collect());
    let exact = |path: &str| DOCUMENT["paths"].get(path).is_some();
    route.len() == path.len()
        && route
            .iter()
            .zip(&path)
            .all(|(open, word)| open == word || (open.starts_with('{') && !exact(&path.join("/"))))
}

/// As much of JSON Schema as the document uses; nothing beyond what is described may be sent.
pub(crate) fn conforms(value: &Value, schema: &Value) -> Result<(), String> {
    if let Some(place) = schema["$ref"].as_str() {
        let target = DOCUMENT.pointer(place.trim_start_matches('#'));
        return conforms(value, target.unwrap_or_else(|| panic!("{place} leads nowhere")));
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let known: Vec<String> = parts.iter().flat_map(names).collect();
        check_names(value, &known)?;
        return parts.iter().try_for_each(|part| conforms_open(value, part));
    }
    for word in ["oneOf", "anyOf"] {
        let Some(choices) = schema[word].as_array() else { continue };
        let fitting: Vec<_> = choices.iter().filter(|c| conforms(value, c).is_ok()).collect();
        return match fitting.len() {
            0 => Err(format!("{value} is none of {choices:?}")),
            1 => Ok(()),
            _ if word == "anyOf" => Ok(()),
            _ => Err(format!("{value} is more than one of {choices:?}")),
        };
    }
    if value.is_object() && schema["properties"].is_object() {
        check_names(value, &names(schema))?;
    }
    conforms_open(value, schema)
}

/// The same, but for names that a schema says nothing about.
fn conforms_open(value: &Value, schema: &Value) -> Result<(), String> {
    if let Some(place) = schema["$ref"].as_str() {
        return conforms_open(value, DOCUMENT.pointer(place.trim_start_matches('#')).unwrap());
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().map(|one| one.as_str().unwrap()).collect(),
        _ => return Ok(()),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&kind) {
        return Err(format!("{value} is not {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Err(format!("{value} is not one of {}", schema["enum"]));
    }
    for item in value.as_array().into_iter().flatten() {
        conforms(item, &schema["items"])?;
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return Err(format!("{name} is missing in {value}"));
        }
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        value.get(name).map_or(Ok(()), |value| conforms(value, part))?;
    }
    Ok(())
}

fn names(schema: &Value) -> Vec<String> {
    match schema["$ref"].as_str() {
        Some(place) => names(DOCUMENT.pointer(place.trim_start_matches('#')).unwrap()),
        None => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties.map(|(name, _)| name.clone()).collect()
        }
    }
}

fn check_names(value: &Value, known: &[String]) -> Result<(), String> {
    let mut given = value.as_object().into_iter().flatten().map(|(name, _)| name);
    match given.find(|name| !known.contains(name)) {
        Some(name) => Err(format!("{name} is not described")),
        None => Ok(()),
    }
}
