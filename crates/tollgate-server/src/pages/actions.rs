//! The actions of operators: a page that asks for a reason and for confirmation, and the form that it sends.
//!
//! Each form becomes one call of the API with the viewer's rights, and stands beside the command that does
//! the same. No rule of an action is written here.

mod catalogue;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Form, Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Map, Value};
use tollgate_api::{ErrorCode, OperatorTx, Submitter, Tx, path};

use super::api::Api;
use super::format::short;
use super::layout::{Frame, error_page, html, with_status};
use super::submitter::{api_path, key};
use super::submitters::submitter_path;
use super::viewer::Viewer;
use crate::http::{Chains, Problem};
use catalogue::{Action, OF_SUBMITTER, OF_TX};

type Fields = BTreeMap<String, String>;

/// The longest reason that a form takes.
const REASON_CHARS_MAX: usize = 500;

/// A link to an action.
pub(crate) struct Button {
    pub(crate) path: String,
    pub(crate) name: &'static str,
    pub(crate) is_grave: bool,
    pub(crate) command: String,
}

impl Action {
    fn find<'a>(of: &'a [Self], word: &str) -> Result<&'a Self, Problem> {
        let found = of.iter().find(|action| action.word == word);
        found.ok_or_else(|| Problem::new(ErrorCode::NotFound, "there is no such action"))
    }

    fn button(&self, path: &str, of: &str) -> Button {
        let path = format!("{path}/{}", self.word);
        Button {
            path,
            name: self.name,
            is_grave: self.is_grave,
            command: self.command_line(of, &Fields::new()),
        }
    }

    /// The command that does the same, with what the form has so far.
    fn command_line(&self, of: &str, fields: &Fields) -> String {
        let mut words = vec![self.command.to_owned(), of.to_owned()];
        for input in
            self.inputs.iter().filter(|input| input.required || fields.contains_key(input.name))
        {
            let value = given_or_missing(fields, input.name);
            words.push(match input.flag {
                "" => value,
                flag => format!("--{flag} {value}"),
            });
        }
        if self.takes_reason {
            words.push(format!("--reason {}", given_or_missing(fields, "reason")));
        }
        words.join(" ")
    }

    /// The body of the call.
    fn body(&self, fields: &Fields) -> Result<Value, Problem> {
        let mut body = Map::new();
        let given =
            |name: &str| fields.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        if self.takes_reason {
            let reason = given("reason").ok_or_else(|| Problem::missing("reason"))?;
            body.insert("reason".to_owned(), Value::from(reason));
        }
        for input in self.inputs {
            match given(input.name) {
                Some(value) => {
                    // People write 30gwei, as in commands; what can't be read is refused by the call.
                    let wei = tollgate_api::parse_amount(value).ok().filter(|_| input.is_amount);
                    let value = wei.map_or_else(|| value.to_owned(), |wei| wei.to_string());
                    body.insert(input.name.to_owned(), Value::from(value));
                }
                None if input.required => return Err(Problem::missing(input.name)),
                None => {}
            }
        }
        Ok(Value::Object(body))
    }
}

/// A field for a shell. One that is not filled in yet stands as `<NAME>`, which a shell refuses: it must not run a
/// command that nobody has completed.
fn given_or_missing(fields: &Fields, name: &str) -> String {
    fields.get(name).map_or_else(|| format!("<{}>", name.to_uppercase()), |value| quoted(value))
}

/// Text for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The actions on a transaction that is not final.
pub(crate) fn tx_buttons(tx: &Tx, nonce: Option<u64>, path: &str) -> Vec<Button> {
    if ["CONFIRMED", "FAILED_FINAL"].contains(&&*tx.state) {
        return Vec::new();
    }
    let is_mined = tx.sub_state.as_deref() == Some("MINED");
    let fits = |action: &&Action| match action.word {
        "cancel" => !is_mined,
        _ => nonce.is_some() && !is_mined,
    };
    OF_TX.iter().filter(fits).map(|action| action.button(path, &tx.tx_id)).collect()
}

/// The actions on a submitter in its state.
pub(crate) fn submitter_buttons(of: &Submitter, path: &str) -> Vec<Button> {
    let fits = |action: &&Action| match action.word {
        "pause" => of.status == "ACTIVE",
        "resume" => of.status != "ACTIVE",
        _ => true,
    };
    OF_SUBMITTER.iter().filter(fits).map(|action| action.button(path, &of.address)).collect()
}

/// The message about an action that the address of a page says was just done.
pub(crate) fn done(query: &Fields) -> Option<String> {
    let word = query.get("done")?;
    let all = OF_TX.iter().chain(&OF_SUBMITTER);
    all.into_iter().find(|action| action.word == word).map(|action| action.done.to_owned())
}

#[derive(Template)]
#[template(path = "action.html")]
struct ActionPage<'a> {
    frame: Frame,
    action: &'a Action,
    /// The account or the transaction.
    of: String,
    short: String,
    back: String,
    fields: Fields,
    command: String,
    problem: Option<(String, &'static str)>,
    reason_max: usize,
}

impl ActionPage<'_> {
    fn value(&self, name: &str) -> String {
        self.fields.get(name).cloned().unwrap_or_default()
    }

    fn is_chosen(&self, name: &str, value: &str) -> bool {
        self.fields.get(name).is_some_and(|given| given == value)
    }
}

/// The transaction or account of an action.
struct Target {
    of: String,
    back: String,
    call: String,
}

impl Target {
    fn tx(tx_id: &str, word: &str) -> Self {
        let back = format!("/tx/{tx_id}");
        Self { of: tx_id.to_owned(), back, call: format!("{}/{word}", path::tx(tx_id)) }
    }

    fn submitter(chain_id: &str, address: &str, word: &str) -> Result<Self, Problem> {
        let of = key(chain_id, address)?;
        let address = of.address.to_checksum(None);
        let back = submitter_path(of.chain_id.get(), &address);
        Ok(Self { back, call: api_path(of, &format!("/{word}"), &[]), of: address })
    }

    fn page(
        self,
        chains: &Chains,
        viewer: &Viewer,
        action: &Action,
        fields: Fields,
        problem: Option<&Problem>,
    ) -> Response {
        let page = ActionPage {
            frame: Frame::new(chains, viewer, ""),
            command: action.command_line(&self.of, &Fields::new()),
            short: short(&self.of),
            of: self.of,
            back: self.back,
            action,
            fields,
            problem: problem.map(|problem| (problem.body.detail.clone(), problem.code.name())),
            reason_max: REASON_CHARS_MAX,
        };
        match problem {
            Some(problem) => with_status(problem.status(), html(&page)),
            None => html(&page),
        }
    }

    /// Carries the form out, or shows it again with what is wrong.
    async fn act(
        self,
        chains: &Chains,
        viewer: &Viewer,
        action: &Action,
        fields: Fields,
    ) -> Response {
        if let Err(problem) = viewer.check_csrf(fields.get("csrf").map(String::as_str)) {
            return error_page(chains, Some(viewer), &problem);
        }
        let api = Api { chains, viewer };
        let acted = match action.body(&fields) {
            Ok(body) => api.post::<Value>(&self.call, &body).await,
            Err(problem) => Err(problem),
        };
        match acted {
            Ok(_) => Redirect::to(&format!("{}?done={}", self.back, action.word)).into_response(),
            Err(problem) => self.page(chains, viewer, action, fields, Some(&problem)),
        }
    }
}

pub(crate) async fn confirm_tx(
    State(chains): State<Chains>,
    viewer: Viewer,
    Path((tx_id, word)): Path<(String, String)>,
    Query(query): Query<Fields>,
) -> Result<Response, Problem> {
    let action = Action::find(&OF_TX, &word)?;
    // One that is not there, or not for this viewer, has no page.
    let api = Api { chains: &chains, viewer: &viewer };
    let operator = [("view", Some("operator".to_owned()))];
    api.get::<OperatorTx>(&path::with_query(&path::tx(&tx_id), &operator)).await?;
    Ok(Target::tx(&tx_id, &word).page(&chains, &viewer, action, query, None))
}

pub(crate) async fn act_on_tx(
    State(chains): State<Chains>,
    viewer: Viewer,
    Path((tx_id, word)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Result<Response, Problem> {
    let action = Action::find(&OF_TX, &word)?;
    Ok(Target::tx(&tx_id, &word).act(&chains, &viewer, action, fields).await)
}

pub(crate) async fn confirm_submitter(
    State(chains): State<Chains>,
    viewer: Viewer,
    Path((chain_id, address, word)): Path<(String, String, String)>,
    Query(query): Query<Fields>,
) -> Result<Response, Problem> {
    let action = Action::find(&OF_SUBMITTER, &word)?;
    let target = Target::submitter(&chain_id, &address, &word)?;
    let api = Api { chains: &chains, viewer: &viewer };
    api.get::<Submitter>(&api_path(key(&chain_id, &address)?, "", &[])).await?;
    Ok(target.page(&chains, &viewer, action, query, None))
}

pub(crate) async fn act_on_submitter(
    State(chains): State<Chains>,
    viewer: Viewer,
    Path((chain_id, address, word)): Path<(String, String, String)>,
    Form(fields): Form<Fields>,
) -> Result<Response, Problem> {
    let action = Action::find(&OF_SUBMITTER, &word)?;
    let target = Target::submitter(&chain_id, &address, &word)?;
    Ok(target.act(&chains, &viewer, action, fields).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(given: &[(&str, &str)]) -> Fields {
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn form_without_a_reason_or_a_required_field_is_refused() {
        let fill = Action::find(&OF_SUBMITTER, "fill").unwrap();
        let missing = |given: &[(&str, &str)]| {
            fill.body(&fields(given)).err().and_then(|problem| problem.body.field.clone())
        };
        assert_eq!(missing(&[("reason", "  ")]).as_deref(), Some("reason"));
        assert_eq!(missing(&[("reason", "hole"), ("first", "7")]).as_deref(), Some("last"));
        let whole =
            [("reason", "hole"), ("first", "7"), ("last", "9"), ("with", "next"), ("csrf", "x")];
        let body = fill.body(&fields(&whole)).unwrap();
        let expected =
            serde_json::json!({ "reason": "hole", "first": "7", "last": "9", "with": "next" });
        assert_eq!(body, expected, "nothing but the fields of the call");
    }

    #[test]
    fn field_that_may_be_left_out_is_left_out() {
        let replace = Action::find(&OF_TX, "replace").unwrap();
        let given = fields(&[
            ("reason", "market"),
            ("maxFeePerGas", "5gwei"),
            ("maxPriorityFeePerGas", ""),
        ]);
        let body = replace.body(&given).unwrap();
        assert_eq!(body, serde_json::json!({ "reason": "market", "maxFeePerGas": "5000000000" }));
    }

    #[test]
    fn command_beside_a_form_is_safe_to_paste() {
        let cancel = Action::find(&OF_TX, "cancel").unwrap();
        let line = cancel.command_line("0193", &fields(&[("reason", "it's; rm -rf /")]));
        assert_eq!(line, r"tollgate tx cancel 0193 --reason 'it'\''s; rm -rf /'");
        let empty = cancel.command_line("0193", &Fields::new());
        assert_eq!(empty, "tollgate tx cancel 0193 --reason <REASON>");
    }

    #[test]
    fn message_of_an_unknown_action_is_not_shown() {
        assert_eq!(done(&fields(&[("done", "<script>")])), None);
        assert!(done(&fields(&[("done", "pause")])).is_some());
    }
}
