//! What the model leaves out, as the documentation of the world has it.

/// Where it stands.
const WORLD: &str = include_str!("world/mod.rs");
/// Behind this line.
const HEADING: &str = "# What the model leaves out";

/// What the model leaves out: a sentence or two each, without markup.
#[must_use]
pub fn left_out() -> Vec<String> {
    let lines = WORLD.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let mut found: Vec<String> = Vec::new();
    for line in lines.skip_while(|line| *line != HEADING).skip(1) {
        if line.starts_with('#') {
            break;
        }
        match (line.strip_prefix("- "), found.last_mut()) {
            (Some(begin), _) => found.push(begin.to_owned()),
            (None, Some(last)) if !line.is_empty() => {
                last.push(' ');
                last.push_str(line);
            }
            (None, _) => {}
        }
    }
    found.iter().map(|text| text.chars().filter(|c| !matches!(c, '`' | '[' | ']')).collect()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn something_is_left_out() {
        let found = super::left_out();
        assert!(found.len() > 5, "{found:?}");
        assert!(found.iter().all(|text| text.ends_with('.')), "{found:?}");
    }
}
