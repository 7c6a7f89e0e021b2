//! Names that come to stand for something else between the look at rights and what they allow.

use std::sync::Arc;

use archive::{ArchiveError, Locality};
use authority::{Authority, Guard};
use door::Engine;
use identity::Caller;

use crate::fake::{Fake, path};

/// An engine with two files of anna's and one of bert's, for anna.
fn enter() -> (Arc<Fake>, Arc<dyn Engine>) {
    let fake = Arc::new(Fake::default());
    for (at, owner) in [("/x/mine", "anna"), ("/x/other", "anna"), ("/x/secret", "bert")] {
        fake.add(at, b"bytes", Locality::Online);
        fake.files.lock().unwrap().get_mut(at).unwrap().attributes.owner = owner.to_owned();
    }
    let guard = Guard::new(Arc::new(Authority::default()), fake.clone() as Arc<dyn Engine>);
    let engine = guard.enter(&Arc::new(Caller::named("anna", [])));
    (fake, engine)
}

fn is_denied<T>(outcome: Result<T, ArchiveError>) -> bool {
    matches!(outcome, Err(ArchiveError::Denied { .. }))
}

/// Whoever may rename and not read had a file of their own looked at, and gave its name to another one
/// before it was opened.
#[test]
fn what_is_opened_is_what_was_looked_at() {
    let (fake, anna) = enter();
    assert!(anna.open_read_for(&path("/x/mine"), "").is_ok());
    assert!(is_denied(anna.open_read_for(&path("/x/secret"), "")));
    *fake.swap.lock().unwrap() = Some(("/x/mine", "/x/secret"));
    assert!(is_denied(anna.open_read_for(&path("/x/mine"), "")), "it is bert's by now");
    assert!(fake.swap.lock().unwrap().is_none(), "it was swapped");
}

#[test]
fn what_is_renamed_is_what_was_looked_at() {
    let (fake, anna) = enter();
    *fake.swap.lock().unwrap() = Some(("/x/mine", "/x/secret"));
    assert!(is_denied(anna.rename(&path("/x/mine"), &path("/x/other"), true)));
    assert!(fake.swap.lock().unwrap().is_none(), "it was swapped");
    assert_eq!(fake.files.lock().unwrap()["/x/other"].attributes.owner, "anna");
    assert_eq!(fake.files.lock().unwrap()["/x/mine"].attributes.owner, "bert");
    let (fake, anna) = enter();
    anna.rename(&path("/x/mine"), &path("/x/other"), true).unwrap();
    assert!(!fake.files.lock().unwrap().contains_key("/x/mine"));
}
