//! What a rule is: phrases of which one must occur, and phrases that must or must not be beside it.

use tollgate_model::answer::AnswerClass;

use super::pattern::occurs;

/// One thing that nodes say, and what it means.
pub(super) struct Rule {
    class: AnswerClass,
    any: &'static [&'static str],
    with: &'static [&'static str],
    unless: &'static [&'static str],
}

/// A class, and the phrase that led to it.
pub(super) type Hit = (AnswerClass, &'static str);

impl Rule {
    /// The class, if any of these phrases occurs.
    pub(super) const fn new(class: AnswerClass, any: &'static [&'static str]) -> Self {
        Self { class, any, with: &[], unless: &[] }
    }

    /// Only if one of these occurs too.
    pub(super) const fn with(mut self, with: &'static [&'static str]) -> Self {
        self.with = with;
        self
    }

    /// Not if one of these occurs.
    pub(super) const fn unless(mut self, unless: &'static [&'static str]) -> Self {
        self.unless = unless;
        self
    }

    /// Whether `part` has what must be there, and the whole text nothing of what must not.
    fn hit(&self, part: &str, text: &str) -> Option<Hit> {
        let phrase = self.any.iter().find(|phrase| occurs(part, phrase))?;
        let with = self.with.is_empty() || self.with.iter().any(|phrase| occurs(part, phrase));
        let unless = self.unless.iter().any(|phrase| occurs(text, phrase));
        (with && !unless).then_some((self.class, *phrase))
    }
}

/// The first rule that fits. The order of a table is part of its meaning.
pub(super) fn first(rules: &[Rule], text: &str) -> Option<Hit> {
    rules.iter().find_map(|rule| rule.hit(text, text))
}

/// The first rule that fits, of those with a class of this kind.
pub(super) fn first_of(rules: &[Rule], text: &str, kind: fn(AnswerClass) -> bool) -> Option<Hit> {
    rules.iter().filter(|rule| kind(rule.class)).find_map(|rule| rule.hit(text, text))
}

/// The first rule that fits a clause of its own. What stands in two sentences doesn't add up.
pub(super) fn first_in_a_clause(rules: &[Rule], text: &str) -> Option<Hit> {
    rules.iter().find_map(|rule| text.split(" | ").find_map(|clause| rule.hit(clause, text)))
}
