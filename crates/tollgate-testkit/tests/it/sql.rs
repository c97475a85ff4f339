//! The rules for the queries of both stores: same files and names, a contract each, and numbers of enums
//! that agree with the model.

use std::collections::BTreeMap;

use tollgate_model::sql::{Query, codes};
use tollgate_postgres::queries as postgres;
use tollgate_sqlite::queries as sqlite;

/// Queries that one store has alone: `(name, why the other needs none)`.
const ONE_STORE_ONLY: &[(&str, &str)] = &[
    (
        "alert_notice_get",
        "SQLite can't join in what an update returns, so it reads in a query of its own",
    ),
    ("completion_number", "SQLite can't update inside a CTE, so it numbers in a query of its own"),
    ("event_lock", "SQLite's write lock is there already"),
    ("event_count", "SQLite can't update inside a CTE, so it counts in a query of its own"),
    ("event_oldest", "SQLite can't delete inside a CTE, so it looks first"),
    ("event_removed", "SQLite can't delete inside a CTE, so it notes the number afterwards"),
];

/// Columns that hold the code of an enum.
const CODED: [&str; 5] = ["state", "status", "mode", "kind", "schedule"];

#[test]
fn both_stores_have_the_same_queries_in_the_same_files_and_order() {
    let names = |queries: Vec<(&'static str, Query)>| -> Vec<_> {
        let named = queries.into_iter().map(|(file, query)| (file, query.name()));
        named.filter(|(_, name)| !ONE_STORE_ONLY.iter().any(|(only, _)| only == name)).collect()
    };
    assert_eq!(names(postgres::all()), names(sqlite::all()));
    for (name, _) in ONE_STORE_ONLY {
        let stores = [postgres::all(), sqlite::all()];
        let holders =
            stores.iter().filter(|all| all.iter().any(|(_, query)| query.name() == *name));
        assert_eq!(holders.count(), 1, "{name}");
    }
}

#[test]
fn every_query_has_a_contract_below_its_name() {
    for (file, query) in postgres::all().into_iter().chain(sqlite::all()) {
        let contract = query.text().lines().nth(1).unwrap_or_default();
        assert!(contract.len() > 10 && contract.starts_with("-- "), "{file}.sql {}", query.name());
    }
}

#[test]
fn every_number_of_an_enum_is_named_and_agrees_with_the_model() {
    let codes: BTreeMap<String, i16> = codes().into_iter().collect();
    let mut named = 0;
    for (file, query) in postgres::all().into_iter().chain(sqlite::all()) {
        let problems = problems(query.text(), &codes);
        assert_eq!(problems, [""; 0], "{file}.sql {}", query.name());
        named += query.text().matches("/* ").count();
    }
    assert!(named > 80, "{named} numbers are named");
}

/// The problems with the numbers of a query.
fn problems(sql: &str, codes: &BTreeMap<String, i16>) -> Vec<String> {
    let code = sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join(" ");
    let spaced = code.replace(['(', ')', ','], " ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let mut problems = Vec::new();
    for at in 0..words.len() {
        let Ok(number) = word(at).parse::<i16>() else { continue };
        if word(at + 1) == "/*" {
            match codes.get(word(at + 2)) {
                Some(code) if *code == number => {}
                known => problems.push(format!("{} is {known:?}, not {number}", word(at + 2))),
            }
            continue;
        }
        // `state = 3`, `state <> 2`, `state in (32, …`, `case … when 0 then`, `between 40 and 59`.
        let before = |back: usize| at.checked_sub(back).map_or("", word);
        let compared_to = if before(2) == "not" { before(3) } else { before(2) };
        let column = compared_to.rsplit('.').next().unwrap_or_default();
        let compared = ["=", "<>", ">=", "in"].contains(&before(1)) && CODED.contains(&column);
        if compared || ["when", "between"].contains(&before(1)) {
            problems.push(format!("{} {} {number} has no name", before(2), before(1)));
        }
    }
    problems
}

#[test]
fn numbers_without_a_name_or_with_a_wrong_one_are_noticed() {
    let codes: BTreeMap<String, i16> = codes().into_iter().collect();
    for bad in [
        "select 1 from r where r.state = 3",
        "select 1 from r where state = 3 /* USED */",
        "select 1 from r where state = 3 /* NOTHING */",
        "select case u.evidence when 0 then 1 end",
        "select 1 from t where state not in (32, 67 /* STUCK_UNPROVEN */)",
        "select 1 from t where state between 40 and 59 /* LAST_FINAL */",
    ] {
        assert_eq!(problems(bad, &codes).len(), 1, "{bad}");
    }
    assert_eq!(
        problems("select 1 from r where state = 3 /* RECYCLABLE */ limit 1", &codes),
        [""; 0]
    );
}
