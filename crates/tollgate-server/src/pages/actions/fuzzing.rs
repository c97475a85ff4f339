//! Forms of actions, as a fuzz target reads them.

use super::catalogue::{OF_SUBMITTER, OF_TX};
use super::{Fields, Target, done};
use crate::http::Problem;

/// Reads fields as the form of every action, and hands the refusals out. The target of an action is read from
/// the fields as well.
pub(crate) fn read_forms(fields: &Fields, mut refused: impl FnMut(Problem)) {
    let of = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    for action in OF_TX.iter().chain(&OF_SUBMITTER) {
        let command = action.command_line(of("txId"), fields);
        assert!(command.starts_with(action.command), "{command}");
        match action.body(fields) {
            Ok(body) => assert!(body.is_object(), "{}", action.word),
            Err(problem) => refused(problem),
        }
    }
    let target = Target::submitter(of("chainId"), of("address"), of("word"));
    target.map_or_else(refused, drop);
    done(fields);
}
