//! Collected answers: `sample.json` from real clients and providers, `answers.json` from their
//! sources, from memory, and made up; `rounds.json` from sources that were read and labelled before
//! the rules saw them, one round after the other. Each names its class, and others that would do.

use serde::Deserialize;
use tollgate_evm::{RpcAnswer, classify, explain};
use tollgate_model::answer::AnswerClass;

const SAMPLE: &str = include_str!("../fixtures/sample.json");
const ANSWERS: &str = include_str!("../fixtures/answers.json");
const ROUNDS: &str = include_str!("../fixtures/rounds.json");

/// One of them.
#[derive(Deserialize)]
pub(crate) struct Collected {
    client: String,
    code: Option<i64>,
    status: Option<u16>,
    pub(crate) message: String,
    data: Option<String>,
    pub(crate) class: String,
    #[serde(default)]
    accept: Vec<String>,
    /// The reason why it is not read as what it is.
    left: Option<String>,
}

impl Collected {
    pub(crate) fn answer(&self) -> RpcAnswer<'_> {
        RpcAnswer {
            code: self.code,
            status: self.status,
            message: &self.message,
            data: self.data.as_deref(),
        }
    }
}

/// All of them.
pub(crate) fn all() -> Vec<Collected> {
    let mut all: Vec<Collected> = serde_json::from_str(SAMPLE).unwrap();
    for fixture in [ANSWERS, ROUNDS] {
        all.extend(serde_json::from_str::<Vec<Collected>>(fixture).unwrap());
    }
    all
}

fn is_right(one: &Collected) -> bool {
    let class = classify(&one.answer()).name();
    class == one.class || one.accept.iter().any(|other| other == class)
}

fn misread(collected: &[Collected]) -> Vec<String> {
    let wrong = collected.iter().filter(|one| one.left.is_none() && !is_right(one));
    wrong
        .map(|one| {
            let got = explain(&one.answer());
            let (want, said) = (&one.class, &one.message);
            format!("{}: {said:?} is {want}, read as {} ({})", one.client, got.class, got.why)
        })
        .collect()
}

fn check(fixture: &str) {
    let collected: Vec<Collected> = serde_json::from_str(fixture).unwrap();
    let misread = misread(&collected);
    assert!(
        misread.is_empty(),
        "{} of {}:\n{}",
        misread.len(),
        collected.len(),
        misread.join("\n")
    );
}

#[test]
fn every_answer_of_the_sample_is_read_as_it_was_meant() {
    check(SAMPLE);
}

#[test]
fn every_answer_of_our_own_collection_is_read_as_it_was_meant() {
    check(ANSWERS);
}

#[test]
fn every_answer_of_the_blind_rounds_is_read_as_it_was_meant() {
    check(ROUNDS);
}

#[test]
fn known_misreadings_are_unchanged_and_keep_the_transaction_alive() {
    let left: Vec<Collected> = all().into_iter().filter(|one| one.left.is_some()).collect();
    assert!(left.len() < 12, "{} are left misread", left.len());
    for one in left {
        let (class, why) = (classify(&one.answer()), one.left.as_deref().unwrap());
        assert!(!is_right(&one), "{:?} is read by now: {why}", one.message);
        assert!(!class.may_lead_to_rejection(), "{:?} is {class}", one.message);
    }
}

#[test]
fn the_collection_names_only_classes_that_exist_and_misses_none() {
    let all = all();
    for one in &all {
        for name in one.accept.iter().chain([&one.class]) {
            assert!(AnswerClass::from_name(name).is_some(), "{name}: {:?}", one.message);
        }
    }
    for class in AnswerClass::ALL.into_iter().filter(|class| *class != AnswerClass::Accepted) {
        assert!(all.iter().any(|one| one.class == class.name()), "nothing is {class}");
    }
}

#[test]
fn nothing_that_may_live_is_read_as_dead() {
    let dead = |name: &str| AnswerClass::from_name(name).unwrap().may_lead_to_rejection();
    for one in all() {
        let got = classify(&one.answer());
        let may_be_dead = dead(&one.class) || one.accept.iter().any(|name| dead(name));
        assert!(may_be_dead || !got.may_lead_to_rejection(), "{:?} is {got}", one.message);
    }
}
