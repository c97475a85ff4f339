//! The documented tables match the code.

use tollgate_model::answer::{AnswerClass, action_for, may_be_with_a_node};

const PAGE: &str = include_str!("../../../../docs/errors/send-answers.md");

#[test]
fn the_documented_table_is_the_one_in_the_code() {
    let documented: Vec<Vec<String>> = PAGE
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    let in_code: Vec<[String; 5]> = AnswerClass::ALL
        .into_iter()
        .map(|class| {
            let with_a_node = if may_be_with_a_node(class) { "yes" } else { "no" };
            [
                format!("`{class}`"),
                class.meaning().to_owned(),
                format!("`{}`", action_for(class)),
                class.response().to_owned(),
                with_a_node.to_owned(),
            ]
        })
        .collect();
    assert_eq!(documented, in_code, "docs/errors/send-answers.md and the code differ");
}
