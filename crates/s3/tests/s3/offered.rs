//! The reference lists the operations that there are.

use std::collections::BTreeSet;

#[test]
fn the_reference_names_every_operation_and_no_other() {
    let code = include_str!("../../src/operations.rs");
    let camel = |name: &str| {
        let words = name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
        words.collect::<String>()
    };
    let offered: BTreeSet<String> = code
        .lines()
        .filter_map(|line| line.trim().strip_prefix("async fn "))
        .map(|rest| camel(rest.split('(').next().unwrap_or_default()))
        .collect();
    assert!(offered.len() > 40, "{offered:?}");
    let text = include_str!("../../../../docs/reference/s3.md");
    let named: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|rest| Some(rest.split_once('`')?.0.to_owned()))
        .filter(|name| {
            name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(char::is_alphanumeric)
        })
        .collect();
    assert_eq!(named, offered);
}
