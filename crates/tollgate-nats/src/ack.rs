//! The answer of a stream to a message.

use serde::Deserialize;

/// The stream has other subjects or does not exist under the expected name.
const OTHER_STREAM: u64 = 10_060;

/// An answer as JetStream writes it: a place in a stream, or an error.
#[derive(Deserialize)]
struct Answer {
    stream: Option<String>,
    seq: Option<u64>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    err_code: Option<u64>,
    description: Option<String>,
}

/// Reads an answer: the stream has the message, now or since an earlier try, or why not.
pub(crate) fn read(stream: &str, answer: &[u8]) -> Result<(), String> {
    let read: Answer = serde_json::from_slice(answer)
        .map_err(|_| format!("the answer is not one of JetStream: is {stream} a stream there?"))?;
    match read {
        Answer { error: Some(Failure { err_code: Some(OTHER_STREAM), .. }), .. } => {
            Err(format!("the subject belongs to another stream than {stream}"))
        }
        Answer { error: Some(Failure { description, .. }), .. } => {
            let why = description.unwrap_or_else(|| "it gave no reason".to_owned());
            Err(format!("the stream {stream} refused the message: {why}"))
        }
        Answer { stream: Some(by), seq: Some(1..), .. } if by == stream => Ok(()),
        Answer { stream: Some(by), .. } if by != stream => {
            Err(format!("the stream {by} answered in place of {stream}"))
        }
        Answer { .. } => Err(format!("the answer does not say that {stream} has the message")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_place_in_the_stream_is_a_success() {
        for (answer, expected) in [
            (r#"{"stream":"EVENTS","seq":7}"#, Ok(())),
            (r#"{"stream":"EVENTS","seq":7,"duplicate":true}"#, Ok(())),
            (r#"{"stream":"OTHER","seq":7}"#, Err("the stream OTHER answered in place of EVENTS")),
            (r#"{"stream":"EVENTS"}"#, Err("does not say that EVENTS has the message")),
            (r#"{"stream":"EVENTS","seq":0}"#, Err("does not say that EVENTS has the message")),
            ("{}", Err("does not say that EVENTS has the message")),
            ("+OK", Err("not one of JetStream")),
            ("", Err("not one of JetStream")),
            (
                r#"{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"}}"#,
                Err("belongs to another stream than EVENTS"),
            ),
            (
                r#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"EVENTS","seq":0}"#,
                Err("refused the message: maximum messages exceeded"),
            ),
        ] {
            match (read("EVENTS", answer.as_bytes()), expected) {
                (Ok(()), Ok(())) => {}
                (Err(why), Err(expected)) if why.contains(expected) => {}
                (read, expected) => panic!("{answer}: {read:?} instead of {expected:?}"),
            }
        }
    }
}
