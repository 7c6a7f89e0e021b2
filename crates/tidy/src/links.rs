//! Links of Markdown pages.

/// Links of the page at `path`, relative to the repository, that lead to no file. `exists` is asked for paths
/// relative to the repository. Addresses of the web and places within the page are not looked at.
#[must_use]
pub fn check_links(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut violations = Vec::new();
    let mut is_fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        if is_fenced {
            continue;
        }
        for target in targets(line) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !resolve(path, file).is_some_and(|file| exists(&file)) {
                violations.push(format!("{path}:{}: the link to {target} leads nowhere", number + 1));
            }
        }
    }
    violations
}

/// The targets of `[text](target)` and of `[name]: target`, outside of inline code.
fn targets(line: &str) -> Vec<String> {
    let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let mut found = Vec::new();
    for (at, opening) in plain.match_indices("](") {
        let rest = &plain[at + opening.len()..];
        let target = rest.split(')').next().unwrap_or_default();
        found.extend(target.split_whitespace().next().map(unquoted));
    }
    if let Some((name, target)) = plain.trim_start().split_once("]:")
        && name.starts_with('[')
        && !name.starts_with("[^")
    {
        found.extend(target.split_whitespace().next().map(unquoted));
    }
    found
}

fn unquoted(target: &str) -> String {
    target.trim_start_matches('<').trim_end_matches('>').to_owned()
}

/// The file relative to the repository; `None` if it is outside of it.
fn resolve(page: &str, file: &str) -> Option<String> {
    if file.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        let exists = |path: &str| ["README.md", "docs/format/tape.md", "docs"].contains(&path);
        check_links("docs/a.md", text, &exists).len()
    }

    #[test]
    fn links_lead_somewhere() {
        let good = [
            "[a](format/tape.md)",
            "[a](../README.md#status) and [b](format/tape.md \"title\")",
            "[a](https://example.org/x) [b](#here) [c](mailto:a@example.org)",
            "`[a](nowhere.md)`",
            "```\n[a](nowhere.md)\n```",
            "[a]: format/tape.md",
            "[^1]: a footnote",
        ];
        for text in good {
            assert_eq!(count(text), 0, "{text}");
        }
        let bad = [
            "[a](nowhere.md)",
            "[a](tape.md)",
            "[a](/etc/hosts)",
            "[a](../../README.md)",
            "see [a]( nowhere.md ) and [b](format/tape.md)",
            "[a]: nowhere.md",
            "```\n```\n[a](nowhere.md#x)",
        ];
        for text in bad {
            assert_eq!(count(text), 1, "{text}");
        }
    }
}
