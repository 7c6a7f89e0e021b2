//! The groups of drives in `kist pool show`.

use terminal::{Table, text};
use wire::PoolGroupReply;

/// How full each group is and what has moved, and what moves now; empty without groups.
pub(super) fn table(groups: &[PoolGroupReply]) -> String {
    let Some(first) = groups.first() else { return String::new() };
    let mut table = Table::new(&[
        "group",
        "shards",
        ">drives",
        ">fs size",
        ">fs used",
        ">moves from",
        ">left",
        ">came back",
    ]);
    for group in groups {
        let drives = match group.drives_taking {
            taking if taking == group.drives => text::count(group.drives),
            taking => format!("{} of {}", text::count(taking), text::count(group.drives)),
        };
        table.row(vec![
            group.name.clone(),
            group.code.clone(),
            drives,
            text::size(group.capacity),
            text::size(group.used),
            format!("{}%", group.high_water_percent),
            text::size(group.left_bytes),
            text::size(group.came_bytes),
        ]);
    }
    let reason = first.reason.clone().unwrap_or_default();
    let state = match first.state.as_str() {
        "moving" => "blobs move between groups now".to_owned(),
        "waiting" => format!("what is to move between groups waits: {reason}"),
        "ended" => "between groups nothing is to move now".to_owned(),
        _ => "what is to move between groups is being looked for".to_owned(),
    };
    format!("{}{state}\n", table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_says_how_full_it_is_and_why_nothing_moves() {
        assert_eq!(table(&[]), "");
        let group = PoolGroupReply {
            name: "nvme".to_owned(),
            code: "4+2".to_owned(),
            drives: 6,
            drives_taking: 5,
            capacity: 6_000_000_000,
            used: 2_000_000_000,
            high_water_percent: 90,
            low_water_percent: 80,
            left_bytes: 1_000,
            came_bytes: 0,
            state: "waiting".to_owned(),
            reason: Some("drives are being emptied first".to_owned()),
        };
        let text = table(&[group]);
        assert!(text.contains("5 of 6") && text.contains("90%"), "{text}");
        assert!(text.ends_with("waits: drives are being emptied first\n"), "{text}");
    }
}
