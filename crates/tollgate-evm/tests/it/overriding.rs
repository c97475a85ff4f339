//! Overrides: which classes an operator may change.

use tollgate_evm::{BadOverride, Override, Overrides, RpcAnswer, classify_with, explain_with};
use tollgate_model::answer::AnswerClass::{self, *};

fn overrides(list: &[(&str, AnswerClass)]) -> Result<Overrides, BadOverride> {
    let list = list.iter().map(|&(phrase, class)| Override { phrase: phrase.to_owned(), class });
    Overrides::new(list.collect())
}

fn class_of(message: &str, list: &[(&str, AnswerClass)]) -> AnswerClass {
    let answer = RpcAnswer { message, ..RpcAnswer::default() };
    classify_with(&answer, &overrides(list).unwrap())
}

#[test]
fn an_override_is_asked_first_and_in_order() {
    let list = [("Flux capacitor is .. empty", PoolFull), ("flux", Transient)];
    assert_eq!(class_of("the FLUX-capacitor is nearly empty!", &list), PoolFull);
    assert_eq!(class_of("flux", &list), Transient);
    assert_eq!(class_of("nonce too low", &[("nonce too low", NonceTooHigh)]), NonceTooHigh);
    assert_eq!(class_of("nonce too low", &list), NonceTooLow);
}

#[test]
fn an_override_may_end_only_what_the_rules_could_not_read_or_would_end_too() {
    let list = [("strange words", Invalid), ("already known", Invalid), ("timed out", Invalid)];
    let list = [&list[..], &[("execution reverted", GasLimit)]].concat();
    assert_eq!(class_of("strange words", &list), Invalid);
    assert_eq!(class_of("execution reverted", &list), GasLimit);
    assert_eq!(class_of("already known", &list[..2]), AlreadyKnown);
    assert_eq!(class_of("nonce too low (strange words)", &list), NonceTooLow);
    assert_eq!(class_of("rate limit, strange words", &list), RateLimited);
    assert_eq!(class_of("<html><body>strange words</body></html>", &list[..1]), Unknown);
}

#[test]
fn an_override_may_save_whatever_the_rules_would_end() {
    assert_eq!(class_of("invalid sender", &[("invalid sender", Transient)]), Transient);
    assert_eq!(class_of("execution reverted: x", &[("reverted", Unknown)]), Unknown);
}

#[test]
fn overrides_that_cannot_be_are_refused_with_their_place() {
    assert_eq!(overrides(&[("fine", Unknown), ("x", Unknown)]), Err(BadOverride::TooShort(2, 3)));
    assert_eq!(overrides(&[("..!", Unknown)]), Err(BadOverride::TooShort(1, 3)));
    assert_eq!(overrides(&[("invalid", Invalid)]), Err(BadOverride::TooShort(1, 8)));
    assert_eq!(overrides(&[("all is well", Accepted)]), Err(BadOverride::Accepted(1)));
    assert_eq!(overrides(&[(&"x".repeat(201), Unknown)]), Err(BadOverride::TooLong(1)));
    assert_eq!(overrides(&[("some words", Unknown); 257]), Err(BadOverride::TooMany(257)));
}

#[test]
fn an_explanation_names_the_override() {
    let list = overrides(&[("aaa", Unknown), ("strange words", PoolFull)]).unwrap();
    let answer = RpcAnswer { message: "strange words", ..RpcAnswer::default() };
    assert_eq!(explain_with(&answer, &list).why, "override number 2 of the chain");
}
