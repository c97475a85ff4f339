//! What an answer asks of its caller.

use serde::Deserialize;

/// The part of a problem that programs look at.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// What to switch on.
    pub code: String,
    /// What was wrong, for people.
    pub detail: String,
    /// Whether the same call can succeed later.
    pub retryable: bool,
}

/// What to do after an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Advice {
    /// It is done.
    Done,
    /// Ask again, the same under the same request id.
    Again {
        /// Why.
        problem: Problem,
        /// Another node may know more than this one.
        elsewhere: bool,
        /// It may have been done: the answer to a commit can be lost.
        unclear: bool,
    },
    /// The same call would be refused again.
    Refused(Problem),
}

impl Advice {
    /// What to do after an answer with this status, and this body where it could be read.
    pub fn after(status: u16, problem: Option<Problem>) -> Self {
        if (200..300).contains(&status) {
            return Self::Done;
        }
        let problem = problem.unwrap_or_default();
        let problem = match problem.code.is_empty() {
            // Not Tollgate's words: a proxy on the way.
            true => Problem { code: format!("http_{status}"), ..problem },
            false => problem,
        };
        match status {
            // The submitter's own limit, wherever it is asked.
            429 => Self::Again { problem, elsewhere: false, unclear: false },
            500.. => {
                let unclear = problem.code != "draining";
                Self::Again { problem, elsewhere: true, unclear }
            }
            _ if problem.retryable => Self::Again { problem, elsewhere: true, unclear: false },
            _ => Self::Refused(problem),
        }
    }

    /// The same from the bytes of a body.
    pub fn read(status: u16, body: &[u8]) -> Self {
        Self::after(status, serde_json::from_slice(body).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(status: u16, body: &str) -> (String, bool, bool) {
        match Advice::read(status, body.as_bytes()) {
            Advice::Again { problem, elsewhere, unclear } => (problem.code, elsewhere, unclear),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_answers_ask_of_callers() {
        assert_eq!(Advice::read(202, b"{}"), Advice::Done);
        assert_eq!(Advice::read(200, b"not even JSON"), Advice::Done);
        let busy = again(429, r#"{"code":"busy","retryable":true}"#);
        assert_eq!(busy, ("busy".into(), false, false));
        let other = again(409, r#"{"code":"not_owner","retryable":true}"#);
        assert_eq!(other, ("not_owner".into(), true, false));
        let draining = again(503, r#"{"code":"draining","retryable":true}"#);
        assert_eq!(draining, ("draining".into(), true, false));
        let down = again(503, r#"{"code":"store_unavailable","retryable":true}"#);
        assert_eq!(down, ("store_unavailable".into(), true, true));
        assert_eq!(again(502, "<html>"), ("http_502".into(), true, true));
        let refused = Advice::read(422, br#"{"code":"invalid_address","detail":"x"}"#);
        let problem =
            Problem { code: "invalid_address".into(), detail: "x".into(), retryable: false };
        assert_eq!(refused, Advice::Refused(problem));
        assert!(matches!(Advice::read(404, b"nginx"), Advice::Refused(p) if p.code == "http_404"));
    }
}
