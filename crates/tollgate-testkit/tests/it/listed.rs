//! No promise is left out: a function of the suite that is in no list would never run.

use std::fs;
use std::path::Path;

#[test]
fn every_function_of_the_suite_is_in_a_list() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lists = fs::read_to_string(sources.join("conformance.rs")).unwrap();
    let mut functions = 0;
    for entry in fs::read_dir(sources.join("conformance")).unwrap() {
        let path = entry.unwrap().path();
        let area = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (_, listed) = lists.split_once(&format!(" {area} {{")).unwrap_or_else(|| {
            panic!("the area {area} is in no list");
        });
        let (listed, _) = listed.split_once('}').unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let (name, _) = line.split_once('(').unwrap();
            assert!(listed.contains(&format!(" {name},")), "{area}::{name} is in no list");
            functions += 1;
        }
    }
    assert!(functions > 80, "only {functions} were found: is the search still right?");
}
