//! The header `If` (RFC 4918, 10.4): conditions on entity tags and locks, and the tokens that come with a
//! request.

use entrance::Refusal;
use http::request::Parts;

use crate::address::{Target, here};

/// The longest header `If` that is read.
const IF_BYTES_MAX: usize = 16 << 10;

/// The header of one request.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct IfHeader {
    /// The lists, each about the resource that stands before it, or about that of the request.
    pub lists: Vec<List>,
}

/// Conditions that have to hold together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct List {
    /// What they are about; `None`: what the request is about. `Elsewhere` is on another server.
    pub about: Option<About>,
    pub conditions: Vec<Condition>,
}

/// What a tagged list is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum About {
    Here(Target),
    Elsewhere,
}

/// One condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    pub is_negated: bool,
    pub what: What,
}

/// What a condition asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// A lock with this token is on it.
    Token(String),
    /// It has this entity tag, quotes and all.
    Tag(String),
}

/// What is known of a resource that conditions ask about.
pub(crate) struct State {
    /// Its entity tag, if it is a file that is there.
    pub tag: Option<String>,
    /// Tokens of the locks that hold for it.
    pub tokens: Vec<String>,
}

impl IfHeader {
    /// Reads the header of a request; several lines are one.
    ///
    /// # Errors
    /// If it is malformed.
    pub(crate) fn of(parts: &Parts) -> Result<IfHeader, Refusal> {
        let mut text = String::new();
        for value in parts.headers.get_all("if") {
            text.push_str(value.to_str().map_err(|_| malformed())?);
            text.push(' ');
        }
        if text.len() > IF_BYTES_MAX {
            return Err(Refusal::bad(format!("the header If has more than {IF_BYTES_MAX} bytes")));
        }
        parse(&text, |address| match here(address, parts) {
            Ok(Some(path)) => Target::parse(&path).map(About::Here),
            Ok(None) => Ok(About::Elsewhere),
            Err(_) => Err(malformed()),
        })
    }

    /// All tokens that come with the request: it says to hold these locks.
    pub(crate) fn tokens(&self) -> Vec<String> {
        let conditions = self.lists.iter().flat_map(|list| &list.conditions);
        let tokens = conditions.filter_map(|condition| match &condition.what {
            What::Token(token) if !condition.is_negated => Some(token.clone()),
            _ => None,
        });
        tokens.collect()
    }

    /// Whether it asks for entity tags, not only for locks.
    pub(crate) fn names_tags(&self) -> bool {
        let mut conditions = self.lists.iter().flat_map(|list| &list.conditions);
        conditions.any(|condition| matches!(condition.what, What::Tag(_)))
    }

    /// Whether one of the lists holds; a request without the header has no conditions.
    ///
    /// # Errors
    /// Those of `state`, which says what is known of a resource (`None`: that of the request).
    pub(crate) fn holds<E>(
        &self,
        mut state: impl FnMut(Option<&Target>) -> Result<State, E>,
    ) -> Result<bool, E> {
        if self.lists.is_empty() {
            return Ok(true);
        }
        for list in &self.lists {
            let state = match &list.about {
                None => state(None)?,
                Some(About::Here(target)) => state(Some(target))?,
                Some(About::Elsewhere) => State { tag: None, tokens: Vec::new() },
            };
            let is_so = |condition: &Condition| match &condition.what {
                What::Token(token) => state.tokens.contains(token) != condition.is_negated,
                What::Tag(tag) => (state.tag.as_ref() == Some(tag)) != condition.is_negated,
            };
            if list.conditions.iter().all(is_so) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Reads lists; `address` says what a resource before them is.
pub(crate) fn parse(
    text: &str,
    address: impl Fn(&str) -> Result<About, Refusal>,
) -> Result<IfHeader, Refusal> {
    let (mut rest, mut about, mut lists, mut is_tagged) = (text.trim(), None, Vec::new(), None);
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('<') {
            let (uri, tail) = tail.split_once('>').ok_or_else(malformed)?;
            // All lists are tagged, or none; each tag has a list.
            if is_tagged == Some(false) || !tail.trim_start().starts_with('(') {
                return Err(malformed());
            }
            (about, is_tagged, rest) = (Some(address(uri)?), Some(true), tail.trim_start());
        } else {
            let tail = rest.strip_prefix('(').ok_or_else(malformed)?;
            is_tagged.get_or_insert(false);
            let (conditions, tail) = conditions(tail)?;
            lists.push(List { about: about.clone(), conditions });
            rest = tail.trim_start();
        }
    }
    Ok(IfHeader { lists })
}

/// The conditions up to the closing bracket, and what stands behind it.
fn conditions(mut rest: &str) -> Result<(Vec<Condition>, &str), Refusal> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(tail) = rest.strip_prefix(')') {
            return if found.is_empty() { Err(malformed()) } else { Ok((found, tail)) };
        }
        let is_negated = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("not"));
        if is_negated {
            rest = rest.get(3..).unwrap_or_default().trim_start();
        }
        let (what, tail) = if let Some(tail) = rest.strip_prefix('<') {
            let (token, tail) = tail.split_once('>').ok_or_else(malformed)?;
            (What::Token(token.to_owned()), tail)
        } else {
            let tail = rest.strip_prefix('[').ok_or_else(malformed)?;
            let (tag, tail) = tail.split_once(']').ok_or_else(malformed)?;
            // A tag of ours is never weak; a weak one is compared as the strong one that it stands for.
            (What::Tag(tag.trim().trim_start_matches("W/").to_owned()), tail)
        };
        found.push(Condition { is_negated, what });
        rest = tail;
    }
}

fn malformed() -> Refusal {
    Refusal::bad("the header If is malformed: write (<TOKEN> [\"ETAG\"]), or <ADDRESS> before it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<IfHeader, Refusal> {
        parse(text, |address| {
            if address == "far" { Ok(About::Elsewhere) } else { Target::parse(address).map(About::Here) }
        })
    }

    #[test]
    fn lists_of_any_kind_are_read() {
        let plain = read("(<urn:uuid:1> [\"7\"]) (Not <DAV:no-lock>)").unwrap();
        assert_eq!(plain.lists.len(), 2);
        assert_eq!(plain.tokens(), ["urn:uuid:1"]);
        let tagged = read("</a> (<t1>) (Not[W/\"x\"]) <far>(<t2>)").unwrap();
        assert_eq!(tagged.lists.len(), 3);
        assert_eq!(tagged.lists[2].about, Some(About::Elsewhere));
        assert_eq!(tagged.lists[1].conditions[0].what, What::Tag("\"x\"".to_owned()));
        for bad in [
            "(",
            "()",
            "(<a)",
            "<a>",
            "<a> <b> (<c>)",
            "(<a>) </b> (<c>)",
            "x",
            "([a)",
            "(not)",
            "(Not Not <a>)",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_list_that_holds_is_enough() {
        let state = |target: Option<&Target>| {
            let tag = target.is_none().then(|| "\"7\"".to_owned());
            Ok::<_, ()>(State { tag, tokens: vec!["t1".to_owned()] })
        };
        for (text, holds) in [
            ("", true),
            ("(<t1>)", true),
            ("(<t1> [\"7\"])", true),
            ("(<t1> [\"8\"])", false),
            ("(<t1> [\"8\"]) ([\"7\"])", true),
            ("(Not <t1>)", false),
            ("(Not <DAV:no-lock>)", true),
            ("(<DAV:no-lock>)", false),
            ("</a> ([\"7\"])", false),
            ("<far> (<t1>)", false),
            ("<far> (Not <t1>)", true),
        ] {
            assert_eq!(read(text).unwrap().holds(state), Ok(holds), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_conditions_or_not(text in "[()<>\\[\\]\"a/NotW ]{0,60}") {
            if let Ok(header) = read(&text) {
                prop_assert!(header.lists.iter().all(|list| !list.conditions.is_empty()));
            }
        }
    }
}
