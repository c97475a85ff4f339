//! The meaning of a response for the caller.

use serde::Deserialize;
use tollgate_api::ErrorCode;

/// The machine-readable part of a problem document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// The error code.
    pub code: String,
    /// An explanation for people.
    pub detail: String,
    /// The same request can succeed later.
    pub retryable: bool,
}

/// The outcome of a request, by what the caller should do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The request is done.
    Done,
    /// Send the same request again, under the same request id.
    Retry {
        /// The reason.
        problem: Problem,
        /// Another node may succeed where this one can't.
        elsewhere: bool,
        /// The request may have been executed: the answer to a commit can be lost.
        maybe_done: bool,
    },
    /// The same request would be refused again.
    Refused(Problem),
}

impl Outcome {
    /// The outcome for a status, and the problem document where the body was one.
    pub fn of(status: u16, problem: Option<Problem>) -> Self {
        if (200..300).contains(&status) {
            return Self::Done;
        }
        let mut problem = problem.unwrap_or_default();
        if problem.code.is_empty() {
            // Not a response of Tollgate: a proxy in between.
            problem.code = format!("http_{status}");
        }
        match status {
            // The limit of the submitter, the same at every node.
            429 => Self::Retry { problem, elsewhere: false, maybe_done: false },
            500.. => {
                let maybe_done = problem.code != ErrorCode::Draining.name();
                Self::Retry { problem, elsewhere: true, maybe_done }
            }
            _ if problem.retryable => Self::Retry { problem, elsewhere: true, maybe_done: false },
            _ => Self::Refused(problem),
        }
    }

    /// The outcome for a status and a body.
    pub fn read(status: u16, body: &[u8]) -> Self {
        Self::of(status, serde_json::from_slice(body).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(status: u16, body: &str) -> (String, bool, bool) {
        match Outcome::read(status, body.as_bytes()) {
            Outcome::Retry { problem, elsewhere, maybe_done } => {
                (problem.code, elsewhere, maybe_done)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn outcome_follows_from_status_and_problem() {
        assert_eq!(Outcome::read(202, b"{}"), Outcome::Done);
        assert_eq!(Outcome::read(200, b"not even JSON"), Outcome::Done);
        let busy = retry(429, r#"{"code":"busy","retryable":true}"#);
        assert_eq!(busy, ("busy".into(), false, false));
        let other = retry(409, r#"{"code":"not_owner","retryable":true}"#);
        assert_eq!(other, ("not_owner".into(), true, false));
        let draining = retry(503, r#"{"code":"draining","retryable":true}"#);
        assert_eq!(draining, ("draining".into(), true, false));
        let down = retry(503, r#"{"code":"store_unavailable","retryable":true}"#);
        assert_eq!(down, ("store_unavailable".into(), true, true));
        assert_eq!(retry(502, "<html>"), ("http_502".into(), true, true));
        let refused = Outcome::read(422, br#"{"code":"invalid_address","detail":"x"}"#);
        let problem =
            Problem { code: "invalid_address".into(), detail: "x".into(), retryable: false };
        assert_eq!(refused, Outcome::Refused(problem));
        assert!(
            matches!(Outcome::read(404, b"nginx"), Outcome::Refused(p) if p.code == "http_404")
        );
    }
}
