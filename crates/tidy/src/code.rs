//! Rust text without what is not code.

/// Rust text whose comments and literals are blanks; lines stay where they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Code(String);

/// Blanks out comments, strings and characters, so that words can be looked for in what is left.
#[must_use]
pub fn strip(text: &str) -> Code {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
            continue;
        }
        code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    Code(code)
}

impl Code {
    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The same with every `#[cfg(test)] mod … { … }` blanked out.
    #[must_use]
    pub fn without_tests(&self) -> Code {
        let mut text = self.0.clone();
        let mut from = 0;
        while let Some(start) = text[from..].find("#[cfg(test)]").map(|found| from + found) {
            let behind = start + "#[cfg(test)]".len();
            from = behind;
            if !text[behind..].trim_start().starts_with("mod ") {
                continue;
            }
            let brace = text[behind..].find(['{', ';']).map(|found| behind + found);
            let Some(brace) = brace.filter(|brace| text.as_bytes()[*brace] == b'{') else { continue };
            let end = matching(&text, brace);
            let blank: String =
                text[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
            text.replace_range(start..end, &blank);
        }
        Code(text)
    }

    /// The lines, from 1, on which `wanted` stands and does not continue a longer word.
    #[must_use]
    pub fn lines_with(&self, wanted: &str) -> Vec<usize> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut lines = Vec::new();
        for (found, _) in self.0.match_indices(wanted) {
            let before = self.0[..found].chars().next_back().filter(|_| wanted.starts_with(is_word));
            let after = self.0[found + wanted.len()..].chars().next().filter(|_| wanted.ends_with(is_word));
            if !before.is_some_and(is_word) && !after.is_some_and(is_word) {
                lines.push(self.line(found));
            }
        }
        lines
    }

    /// The lines on which a module of `std` is named, also within `std::{…}`.
    #[must_use]
    pub fn lines_with_std(&self, module: &str) -> Vec<usize> {
        let mut lines = self.lines_with(&format!("std::{module}"));
        for (found, opening) in self.0.match_indices("std::{") {
            let brace = found + opening.len() - 1;
            let end = matching(&self.0, brace);
            let (mut depth, mut start) = (0usize, brace + 1);
            for (at, c) in self.0[brace + 1..end].char_indices().map(|(at, c)| (brace + 1 + at, c)) {
                depth += usize::from(c == '{');
                if (c == ',' || c == '}') && depth == 0 {
                    let item = self.0[start..at].trim_start();
                    let name: &str =
                        item.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("");
                    if name == module {
                        lines.push(self.line(at - item.len()));
                    }
                    start = at + 1;
                }
                depth = depth.saturating_sub(usize::from(c == '}'));
            }
        }
        lines
    }

    fn line(&self, at: usize) -> usize {
        self.0[..at].matches('\n').count() + 1
    }
}

/// The byte behind the brace that closes the one at `brace`, or the end.
fn matching(text: &str, brace: usize) -> usize {
    let mut depth = 0usize;
    for (at, c) in text[brace..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return brace + at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Where the comment or literal that begins at `at` ends; `at` if none begins there.
fn literal_end(chars: &[char], at: usize) -> usize {
    let here = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
    match (here(0), here(1)) {
        ('/', '/') => position(chars, at, '\n'),
        ('/', '*') => block_comment_end(chars, at),
        ('"', _) => string_end(chars, at),
        ('r', '"' | '#') if !continues_a_word(chars, at) => raw_string_end(chars, at),
        // `'a'` and `'\n'` are characters, `'a` is a lifetime.
        ('\'', '\\') => position(chars, at + 3, '\'') + 1,
        ('\'', _) if here(2) == '\'' => at + 3,
        _ => at,
    }
    .min(chars.len())
}

fn position(chars: &[char], from: usize, wanted: char) -> usize {
    chars.iter().skip(from).position(|c| *c == wanted).map_or(chars.len(), |found| from + found)
}

/// Whether the `r` belongs to a longer word; `b` and `c` before it make it a byte or C string.
fn continues_a_word(chars: &[char], at: usize) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let before = |count: usize| at.checked_sub(count).map_or(' ', |index| chars[index]);
    is_word(before(1)) && (is_word(before(2)) || !matches!(before(1), 'b' | 'c'))
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut now) = (0usize, at);
    while now + 1 < chars.len() {
        match (chars[now], chars[now + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') if depth == 1 => return now + 2,
            ('*', '/') => depth -= 1,
            _ => {
                now += 1;
                continue;
            }
        }
        now += 2;
    }
    chars.len()
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut now = at + 1;
    while now < chars.len() {
        match chars[now] {
            '\\' => now += 2,
            '"' => return now + 1,
            _ => now += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        // A raw identifier such as `r#type`.
        return at;
    }
    let mut now = at + 2 + hashes;
    while now < chars.len() {
        let closes = chars[now] == '"'
            && chars[now + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
        if closes {
            return now + 1 + hashes;
        }
        now += 1;
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = r##"
            // unsafe
            /* unsafe /* unsafe */ unsafe */
            let a = "unsafe \" unsafe"; let b = r#"unsafe " unsafe"#; let c = br"unsafe";
            let d: &'static str = f('"', '\'', 'u'); unsafe {}
        "##;
        assert_eq!(strip(text).lines_with("unsafe"), [5]);
    }

    #[test]
    fn only_whole_words_are_found() {
        let code = strip("forbid(unsafe_code); not_unsafe(); my_todo!(); todo!()");
        assert!(code.lines_with("unsafe").is_empty());
        assert_eq!(code.lines_with("todo!("), [1]);
    }

    #[test]
    fn modules_of_std_are_found_in_groups() {
        let code = strip(
            "use std::{\n    collections::{BTreeMap, fs},\n    fs::File,\n    thread,\n};\nstd::net::x()",
        );
        assert_eq!(code.lines_with_std("fs"), [3]);
        assert_eq!(code.lines_with_std("thread"), [4]);
        assert_eq!(code.lines_with_std("net"), [6]);
        assert_eq!(strip("use std::{fs}; use std::{io, thread}").lines_with_std("thread"), [1]);
        assert_eq!(strip("use std::{fs}; use std::{io, thread}").lines_with_std("fs"), [1]);
    }

    #[test]
    fn tests_can_be_left_out() {
        let code =
            strip("a();\n#[cfg(test)]\nmod tests {\n    fn b() { fs() }\n}\nc();\n#[cfg(test)]\nfn d() {}");
        let left = code.without_tests();
        assert!(
            left.lines_with("b").is_empty() && left.lines_with("c") == [6] && left.lines_with("d") == [8]
        );
    }
}
