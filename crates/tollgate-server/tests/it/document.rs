//! The OpenAPI document, the pages beside it, and whether they keep up with the code.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use tollgate_model::ChainId;
use tollgate_model::account_pool::{AccountPool, PoolName};
use tollgate_model::port::AccountPoolStore as _;

use crate::contract::{DOCUMENT, conforms, operations, parameter};
use crate::site::{SENDER, Site};

#[test]
fn the_committed_document_is_the_one_that_nodes_serve() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let served = tollgate_server::openapi();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &served).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == served, "run the test with UPDATE_DOCS=1 to write docs/openapi.json anew");
}

#[test]
fn the_command_prints_the_document() {
    let program = env!("CARGO_BIN_EXE_tollgate");
    let output = std::process::Command::new(program).arg("openapi").output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), tollgate_server::openapi());
}

#[test]
fn every_operation_is_described_and_every_name_is_used_once() {
    assert!(DOCUMENT["openapi"].as_str().unwrap().starts_with("3.1."));
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations() {
        let what = format!("{method} {path}");
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{what}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{what}: same id twice");
        let tag = &operation["tags"][0];
        let tags = DOCUMENT["tags"].as_array().unwrap();
        assert!(tags.iter().any(|known| known["name"] == *tag), "{what}: {tag}");
        for parameter in operation["parameters"].as_array().unwrap() {
            assert!(parameter["description"].is_string(), "{what}: {parameter}");
        }
        for status in ["500", "503"] {
            assert!(operation["responses"][status].is_object(), "{what} has no {status}");
        }
    }
    for (name, schema) in DOCUMENT["components"]["schemas"].as_object().unwrap() {
        for (field, about) in schema["properties"].as_object().into_iter().flatten() {
            let about = if about["oneOf"].is_array() { &about["oneOf"][0] } else { about };
            assert!(about["description"].is_string() || name == "Depth", "{name}.{field}");
        }
    }
}

#[test]
fn a_route_can_be_added_only_with_its_documentation() {
    let source = include_str!("../../src/http.rs");
    let plain = [".route(", ".route_service(", ".nest(", ".nest_service("];
    assert!(!plain.iter().any(|word| source.contains(word)), "use routes!");
}

#[test]
fn every_example_fits_its_schema() {
    for (path, method, operation) in operations() {
        let contents = operation["responses"].as_object().unwrap().values();
        let contents = contents.chain([&operation["requestBody"]]);
        for content in contents.filter_map(|part| part["content"].as_object()) {
            for (_, content) in content {
                for (name, example) in content["examples"].as_object().into_iter().flatten() {
                    let place = example["$ref"].as_str().map(|place| place.trim_start_matches('#'));
                    let example = place.map_or(example, |place| DOCUMENT.pointer(place).unwrap());
                    conforms(&example["value"], &content["schema"])
                        .unwrap_or_else(|why| panic!("{method} {path}, {name}: {why}"));
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_requests_are_taken() {
    let site = Site::new().await;
    let members = vec![SENDER.parse().unwrap()];
    let pool = AccountPool { name: PoolName::new("payouts").unwrap(), members };
    site.store.put_pool(ChainId::new(7).unwrap(), &pool).await.unwrap();
    for path in ["/api/v1/tx", "/api/v1/tx/batch"] {
        let content = &DOCUMENT["paths"][path]["post"]["requestBody"]["content"];
        let examples = content["application/json"]["examples"].as_object().unwrap();
        for (name, example) in examples {
            let account = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
            let body = example["value"].to_string().replace(account, SENDER);
            let answer = site.post(path, body).await;
            assert!(answer.status.is_success(), "{name}: {answer:?}");
            for item in answer.json()["items"].as_array().into_iter().flatten() {
                assert_eq!(item["status"], 202, "{name}: {item}");
            }
        }
    }
}

/// A value that a parameter's schema allows.
fn sample(parameter: &Value) -> String {
    let schema = &parameter["schema"];
    let first = [&schema["examples"][0], &schema["enum"][0], &schema["items"]["enum"][0]];
    match first.into_iter().find(|value| value.is_string()) {
        Some(value) => value.as_str().unwrap().to_owned(),
        None if schema["type"] == "boolean" => "true".to_owned(),
        None if schema["type"] == "integer" => "7".to_owned(),
        None => "1ms".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_parameter_is_taken_and_no_other() {
    let site = Site::new().await;
    for (path, method, operation) in operations().into_iter().filter(|(_, m, _)| *m == "get") {
        let path = path.replace("{txId}", "0198c0de-7a11-7000-8000-00000000cafe");
        let path = path.replace("{address}", SENDER).replace("{code}", "busy");
        for given in operation["parameters"].as_array().unwrap() {
            let name = given["name"].as_str().unwrap();
            if parameter(operation, name).is_some() {
                let answer = site.get(&format!("{path}?{name}={}", sample(given))).await;
                let refused = answer.text.contains("is not a parameter");
                assert!(!refused, "{method} {path}: {name}: {answer:?}");
            }
        }
        if path.starts_with("/api/") {
            let answer = site.get(&format!("{path}?surprise=1")).await;
            let known = ["invalid_query", "missing_field"];
            assert!(known.contains(&answer.code().as_str()), "{path}: {answer:?}");
        }
    }
}

#[test]
fn the_limits_are_in_the_document() {
    let limit = |path: &str, name: &str| {
        let operation = &DOCUMENT["paths"][path]["get"];
        parameter(operation, name).unwrap()["schema"].clone()
    };
    for path in ["/api/v1/tx", "/api/v1/tx/completions", "/api/v1/submitters"] {
        let schema = limit(path, "limit");
        assert_eq!((&schema["minimum"], &schema["maximum"]), (&json!(1), &json!(1000)), "{path}");
    }
    let schemas = &DOCUMENT["components"]["schemas"];
    assert_eq!(schemas["Batch"]["properties"]["items"]["maxItems"], 1000);
    assert_eq!(schemas["RequestId"]["maxLength"], 256);
    let about = DOCUMENT["info"]["description"].as_str().unwrap();
    for words in ["2097152 bytes", "1000 items", "16384 bytes", "within 30 s", "within 70 s"] {
        assert!(about.contains(words), "{words}");
    }
    let wait = parameter(&DOCUMENT["paths"]["/api/v1/tx/completions"]["get"], "wait").unwrap();
    assert!(wait["description"].as_str().unwrap().contains("at most 60 s"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_the_document_are_served_and_need_nothing_from_elsewhere() {
    let site = Site::new().await;
    assert_eq!(site.get("/openapi.json").await.text, tollgate_server::openapi());
    let page = site.get("/docs").await;
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(
        page.headers["content-security-policy"].to_str().unwrap().contains("connect-src 'self'")
    );
    for elsewhere in ["http://", "https://", "src=\"//", "href=\"//", "@import", "url("] {
        assert!(!page.text.contains(elsewhere), "{elsewhere}");
    }
    let script = page.text.split('"').find(|it| it.starts_with("/assets/") && it.ends_with(".js"));
    assert!(script.is_some(), "the script that draws the document is this node's: {}", page.text);
    let about = site.get("/docs/errors/busy").await;
    assert!(about.text.starts_with("# busy"), "{about:?}");
    assert_eq!(site.get("/docs/errors/nonsense").await.code(), "not_found");
}
