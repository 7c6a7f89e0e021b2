//! The reference says the same of what the model leaves out as the documentation of the world.

use twin::left_out;

const PAGE: &str = include_str!("../../../../docs/reference/twin.md");

#[test]
fn what_the_model_leaves_out_is_on_the_page() {
    let plain = |text: &str| -> String {
        let text: String = text.chars().filter(|c| !matches!(c, '`' | '[' | ']')).collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let part = PAGE.split("## What the model leaves out").nth(1).unwrap();
    let part = part.split("\n## ").next().unwrap();
    let points = part.lines().filter(|line| line.starts_with("- ")).count();
    let part = plain(part);
    for sentence in left_out() {
        assert!(part.contains(&plain(&sentence)), "not in docs/reference/twin.md: {sentence}");
    }
    assert_eq!(points, left_out().len(), "something more is on the page");
}
