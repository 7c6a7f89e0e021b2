//! Access control lists of directories: who gets which rights.

use std::fmt;
use std::str::FromStr;

use crate::caller::{Caller, NAME_BYTES_MAX};
use crate::rights::{Rights, RightsError};

/// The most entries of a list.
pub const ACL_ENTRIES_MAX: usize = 64;
/// The longest subject in its text form, `group:` and a name.
pub const SUBJECT_BYTES_MAX: usize = NAME_BYTES_MAX + 6;

/// Who gets rights.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Subject {
    /// Whoever has this name (`user:NAME`).
    User(String),
    /// Whoever is in this group (`group:NAME`).
    Group(String),
    /// Everybody who has come in with a credential (`authenticated`).
    Authenticated,
    /// Everybody (`anyone`).
    Anyone,
}

/// One line of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AclEntry {
    /// Who.
    pub subject: Subject,
    /// What they may do.
    pub rights: Rights,
}

/// A list; whoever is not in it has no right by it. Each subject stands in it once, in a fixed order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Acl {
    entries: Vec<AclEntry>,
}

/// Why a text or a stored list is no access control list.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AclError {
    /// The subject is none.
    #[error("'{0}' is nobody: say user:NAME, group:NAME, authenticated or anyone")]
    Subject(String),
    /// The entry has no rights behind its subject.
    #[error("'{0}' has no rights: say user:NAME:rl or anyone:r")]
    NoRights(String),
    /// A letter is no right.
    #[error(transparent)]
    Rights(#[from] RightsError),
    /// Stored bits are no rights: a newer Kist wrote them.
    #[error("the bits {0:#x} of an access control list are not known: read it with a newer kist")]
    Bits(u32),
    /// Too many entries.
    #[error("an access control list has at most {ACL_ENTRIES_MAX} entries")]
    TooMany,
    /// The same subject twice.
    #[error("'{0}' stands in the list twice: put its rights into one entry")]
    Twice(Subject),
}

impl Acl {
    /// A list of these entries.
    ///
    /// # Errors
    /// If there are more than [`ACL_ENTRIES_MAX`], or a subject comes twice.
    pub fn new(mut entries: Vec<AclEntry>) -> Result<Self, AclError> {
        if entries.len() > ACL_ENTRIES_MAX {
            return Err(AclError::TooMany);
        }
        entries.sort_by(|a, b| a.subject.cmp(&b.subject));
        let twice = entries.windows(2).find_map(|pair| match pair {
            [a, b] if a.subject == b.subject => Some(a.subject.clone()),
            _ => None,
        });
        match twice {
            Some(subject) => Err(AclError::Twice(subject)),
            None => Ok(Acl { entries }),
        }
    }

    /// The entries, ordered by their subjects.
    #[must_use]
    pub fn entries(&self) -> &[AclEntry] {
        &self.entries
    }

    /// The list as it is stored: subjects as text, rights as bits.
    #[must_use]
    pub fn to_pairs(&self) -> Vec<(String, u32)> {
        self.entries.iter().map(|entry| (entry.subject.to_string(), entry.rights.bits())).collect()
    }

    /// A list that was stored.
    ///
    /// # Errors
    /// If a subject or rights are not known; nothing is left out of a list.
    pub fn from_pairs<S: AsRef<str>>(pairs: &[(S, u32)]) -> Result<Self, AclError> {
        let entry = |(subject, bits): &(S, u32)| {
            let rights = Rights::from_bits(*bits).ok_or(AclError::Bits(*bits))?;
            Ok(AclEntry { subject: subject.as_ref().parse()?, rights })
        };
        Acl::new(pairs.iter().map(entry).collect::<Result<_, AclError>>()?)
    }

    /// What the list gives to a caller, with what it brings along.
    #[must_use]
    pub fn rights_of(&self, caller: &Caller) -> Rights {
        let theirs = self.entries.iter().filter(|entry| entry.subject.is(caller));
        theirs.fold(Rights::NONE, |rights, entry| rights | entry.rights).implied()
    }
}

impl Subject {
    /// Whether the caller is meant.
    #[must_use]
    pub fn is(&self, caller: &Caller) -> bool {
        match self {
            Subject::User(name) => !caller.is_anonymous() && caller.name == *name,
            Subject::Group(group) => caller.groups.contains(group),
            Subject::Authenticated => !caller.is_anonymous(),
            Subject::Anyone => true,
        }
    }
}

impl FromStr for Subject {
    type Err = AclError;

    fn from_str(text: &str) -> Result<Self, AclError> {
        let wrong = || AclError::Subject(text.chars().take(SUBJECT_BYTES_MAX).collect());
        let name = |name: &str| {
            let good = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control);
            good.then(|| name.to_owned()).ok_or_else(wrong)
        };
        match text.split_once(':') {
            Some(("user", rest)) => name(rest).map(Subject::User),
            Some(("group", rest)) => name(rest).map(Subject::Group),
            None if text == "authenticated" => Ok(Subject::Authenticated),
            None if text == "anyone" => Ok(Subject::Anyone),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::User(name) => write!(f, "user:{name}"),
            Subject::Group(name) => write!(f, "group:{name}"),
            Subject::Authenticated => f.write_str("authenticated"),
            Subject::Anyone => f.write_str("anyone"),
        }
    }
}

/// `user:anna:rwl`: the rights come behind the last colon, since names may have colons.
impl FromStr for AclEntry {
    type Err = AclError;

    fn from_str(text: &str) -> Result<Self, AclError> {
        let none = || AclError::NoRights(text.chars().take(SUBJECT_BYTES_MAX).collect());
        let (subject, rights) = text.rsplit_once(':').ok_or_else(none)?;
        if matches!(subject, "user" | "group") {
            return Err(none());
        }
        let entry = AclEntry { subject: subject.parse()?, rights: Rights::parse(rights)? };
        if entry.rights.is_empty() { Err(none()) } else { Ok(entry) }
    }
}

impl fmt::Display for AclEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.subject, self.rights)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn acl(lines: &[&str]) -> Acl {
        Acl::new(lines.iter().map(|line| line.parse().unwrap()).collect()).unwrap()
    }

    #[test]
    fn entries_are_read_as_they_are_written() {
        for text in
            ["user:anna:lrw", "group:cms:r", "authenticated:l", "anyone:r", "user:https://iss/:sub:tm"]
        {
            assert_eq!(text.parse::<AclEntry>().unwrap().to_string(), text);
        }
        let name = "n".repeat(NAME_BYTES_MAX);
        assert!(format!("user:{name}:r").parse::<AclEntry>().is_ok());
        let wrong =
            ["", "anna:r", "user:anna", "user::r", "user:anna:", "user:anna:rx", "anyone", "everyone:r"];
        for text in
            wrong.into_iter().map(str::to_owned).chain([format!("user:{name}n:r"), "user:a\nb:r".into()])
        {
            assert!(text.parse::<AclEntry>().is_err(), "{text}");
        }
    }

    #[test]
    fn rights_of_all_entries_that_mean_a_caller_are_joined() {
        let list = acl(&["user:anna:r", "group:cms:c", "authenticated:l", "anyone:p"]);
        let rights = |caller: &Caller| list.rights_of(caller).to_string();
        assert_eq!(rights(&Caller::named("anna", ["cms"])), "tlrcp");
        assert_eq!(rights(&Caller::named("bert", ["atlas"])), "tlp");
        assert_eq!(rights(&Caller::named("cms", [])), "tlp", "a user is no group");
        assert_eq!(rights(&Caller::anonymous()), "p");
    }

    #[test]
    fn limits_hold_and_no_subject_comes_twice() {
        let entry = |n: usize| AclEntry { subject: Subject::User(format!("u{n}")), rights: Rights::READ };
        assert!(Acl::new((0..ACL_ENTRIES_MAX).map(entry).collect()).is_ok());
        assert_eq!(Acl::new((0..=ACL_ENTRIES_MAX).map(entry).collect()), Err(AclError::TooMany));
        assert!(matches!(Acl::new(vec![entry(1), entry(1)]), Err(AclError::Twice(_))));
        assert_eq!(Acl::from_pairs(&[("anyone", 512)]), Err(AclError::Bits(512)));
        assert!(matches!(Acl::from_pairs(&[("nobody", 1)]), Err(AclError::Subject(_))));
    }

    proptest! {
        #[test]
        fn stored_lists_are_read_back(
            names in proptest::collection::btree_set("[a-z:/.@-]{1,64}", 0..20),
            bits in 0u32..512,
        ) {
            let entries = names.into_iter().enumerate().map(|(n, name)| AclEntry {
                subject: if n % 2 == 0 { Subject::User(name) } else { Subject::Group(name) },
                rights: Rights::from_bits(bits).unwrap(),
            });
            let list = Acl::new(entries.collect()).unwrap();
            prop_assert_eq!(Acl::from_pairs(&list.to_pairs()), Ok(list));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,100}") {
            if let Ok(entry) = text.parse::<AclEntry>() {
                prop_assert_eq!(entry.to_string().parse::<AclEntry>(), Ok(entry));
            }
        }
    }
}
