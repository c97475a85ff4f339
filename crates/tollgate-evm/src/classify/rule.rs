//! A rule: phrases of which one must occur, and phrases that must or must not occur with it.

use tollgate_model::answer::AnswerClass;

use super::pattern::occurs;

/// Phrases of nodes and their class.
pub(super) struct Rule {
    class: AnswerClass,
    any: &'static [&'static str],
    with: &'static [&'static str],
    unless: &'static [&'static str],
}

/// A class and the phrase that matched.
pub(super) type Hit = (AnswerClass, &'static str);

impl Rule {
    /// Matches if any of these phrases occurs.
    pub(super) const fn new(class: AnswerClass, any: &'static [&'static str]) -> Self {
        Self { class, any, with: &[], unless: &[] }
    }

    /// Matches only if one of these occurs too.
    pub(super) const fn with(mut self, with: &'static [&'static str]) -> Self {
        self.with = with;
        self
    }

    /// Does not match if one of these occurs.
    pub(super) const fn unless(mut self, unless: &'static [&'static str]) -> Self {
        self.unless = unless;
        self
    }

    /// Returns whether `part` has the required phrases, and the whole text none of the excluded ones.
    fn hit(&self, part: &str, text: &str) -> Option<Hit> {
        let phrase = self.any.iter().find(|phrase| occurs(part, phrase))?;
        let with = self.with.is_empty() || self.with.iter().any(|phrase| occurs(part, phrase));
        let unless = self.unless.iter().any(|phrase| occurs(text, phrase));
        (with && !unless).then_some((self.class, *phrase))
    }
}

/// The first rule that matches. The order of a table is part of its meaning.
pub(super) fn first(rules: &[Rule], text: &str) -> Option<Hit> {
    rules.iter().find_map(|rule| rule.hit(text, text))
}

/// The first matching rule with a class of this kind.
pub(super) fn first_of(rules: &[Rule], text: &str, kind: fn(AnswerClass) -> bool) -> Option<Hit> {
    rules.iter().filter(|rule| kind(rule.class)).find_map(|rule| rule.hit(text, text))
}

/// The first rule that matches within one clause: phrases of two sentences are not combined.
pub(super) fn first_in_a_clause(rules: &[Rule], text: &str) -> Option<Hit> {
    rules.iter().find_map(|rule| text.split(" | ").find_map(|clause| rule.hit(clause, text)))
}
