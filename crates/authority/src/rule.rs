//! What one caller may do with which path.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use archive::{AccessChain, ArchiveError, RenameOf, RequestInfo, Which};
use base::{ArchivePath, RequestId};
use catalogue::{Attributes, DirectoryOwner, Entry};
use identity::{Acl, AclEntry, AclError, Node, Refused, Rights, Target, decide, rights_at};
use journal::Outcome;

use crate::authority::Ledger;
use crate::locks::{Lock, Locks, Touch};
use crate::roles::{Access, Objects, Staging};

/// One caller before one engine.
pub(crate) struct Rule<E: ?Sized> {
    pub engine: Arc<E>,
    pub ledger: Ledger,
    pub holding: Holding,
}

/// The locks of all callers, and what of them this one says to hold.
#[derive(Clone)]
pub(crate) struct Holding {
    pub locks: Arc<Locks>,
    pub tokens: Vec<String>,
}

impl<E: ?Sized> Clone for Rule<E> {
    fn clone(&self) -> Self {
        Rule { engine: self.engine.clone(), ledger: self.ledger.clone(), holding: self.holding.clone() }
    }
}

/// How a put is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Putting {
    /// Whatever is there may be replaced.
    Replace,
    /// Only if nothing is there, which the engine has to see to when it commits.
    Create,
}

impl<E: ?Sized> Rule<E> {
    pub(crate) fn is_admin(&self) -> bool {
        self.ledger.caller.is_admin
    }

    /// What has to be allowed where a name is taken away from. A token that may create may also rename what
    /// it made; for everybody else, macaroons of tokens too, a name that goes is a change.
    fn renaming(&self) -> Rights {
        let caller = &self.ledger.caller;
        if caller.is_confined() && !caller.is_bounded() { Rights::CREATE } else { Rights::MODIFY }
    }

    /// That the caller is an admin, or may at least look.
    pub(crate) fn looks(&self, verb: &'static str, what: impl Display) -> Result<(), ArchiveError> {
        if self.ledger.caller.looks() {
            return Ok(());
        }
        self.deny(verb, what, Refused::NotAdmin)
    }

    /// That the caller is an admin.
    pub(crate) fn admin(&self, verb: &'static str, what: impl Display) -> Result<(), ArchiveError> {
        if self.is_admin() { Ok(()) } else { self.deny(verb, what, Refused::NotAdmin) }
    }

    /// Whether the caller may see what goes on in the name of this one.
    pub(crate) fn sees(&self, owner: &str) -> bool {
        let caller = &self.ledger.caller;
        let is_own = !caller.is_anonymous() && owner == caller.name;
        caller.looks() || (is_own && caller.may_somewhere(Rights::MODIFY))
    }

    /// Whether the caveats of a macaroon, if it is one, leave these rights to what has or had a path. What
    /// has none any more was removed, and nothing comes of it.
    pub(crate) fn bounds_leave(&self, rights: Rights, path: &str) -> bool {
        let (Some(bounds), Ok(path)) = (&self.ledger.caller.bounds, ArchivePath::collapsed(path)) else {
            return true;
        };
        bounds.iter().any(|one| one.rights.contains(rights) && one.covers(&path, Target::File))
    }

    /// The same of a path as a client wrote it. A text that is no path is nowhere that a macaroon is for.
    pub(crate) fn bounds_leave_text(&self, rights: Rights, text: &str) -> bool {
        match ArchivePath::collapsed(text) {
            Ok(path) => self.bounds_leave(rights, path.as_str()),
            Err(_) => !self.ledger.caller.is_bounded(),
        }
    }

    pub(crate) fn owns(&self, info: &RequestInfo, looks: bool) -> bool {
        let caller = &self.ledger.caller;
        if caller.is_admin || (looks && caller.looks()) {
            return true;
        }
        let wanted = if looks { Rights::POLL } else { Rights::STAGE };
        caller.may_somewhere(wanted) && !caller.is_anonymous() && info.record.owner == caller.name
    }

    /// Makes a change if it can be written down, and writes down how it ended.
    pub(crate) fn done<T>(
        &self,
        verb: &'static str,
        what: impl Display,
        change: impl FnOnce() -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        self.done_with_news(verb, what, |_| true, change)
    }

    /// The same of what may turn out to be no change: that is not written down.
    pub(crate) fn done_with_news<T>(
        &self,
        verb: &'static str,
        what: impl Display,
        is_news: impl FnOnce(&T) -> bool,
        change: impl FnOnce() -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        self.ledger.admit(verb)?;
        let result = change();
        if result.as_ref().map_or(true, is_news) {
            self.ledger.outcome(verb, &what.to_string(), &result);
        }
        result
    }

    /// Makes the caller the owner of what they make, unless an admin names another one.
    pub(crate) fn own_up(&self, attributes: &mut Attributes) {
        let caller = &self.ledger.caller;
        if !caller.is_admin || attributes.owner.is_empty() {
            attributes.owner.clone_from(&caller.name);
        }
        let may_name = caller.is_admin || caller.groups.contains(&attributes.group);
        if attributes.group.is_empty() || !may_name {
            attributes.group = caller.groups.first().cloned().unwrap_or_default();
        }
    }

    /// Who is named to the engine: the caller, unless an admin names somebody else.
    pub(crate) fn acting(&self, named: &str) -> String {
        let caller = &self.ledger.caller;
        if caller.is_admin && !named.is_empty() { named.to_owned() } else { caller.name.clone() }
    }

    pub(crate) fn deny<T>(
        &self,
        verb: &'static str,
        what: impl Display,
        why: impl Display,
    ) -> Result<T, ArchiveError> {
        let (what, why) = (what.to_string(), why.to_string());
        self.ledger.write(verb, &what, Outcome::Refused, &why);
        Err(ArchiveError::Denied { who: self.ledger.caller.label().to_owned(), verb, what, why })
    }

    fn on(
        &self,
        rights: Rights,
        path: &ArchivePath,
        target: Option<Target>,
        chain: &AccessChain,
    ) -> Result<(), Refused> {
        let there = if chain.exists && chain.is_directory { Target::Directory } else { Target::File };
        decide(&self.ledger.caller, rights, path, target.unwrap_or(there), &nodes(chain))
    }
}

impl<E: Access + ?Sized> Rule<E> {
    /// That no lock stands in the way of a change, but those of the caller whose tokens come with it. To be
    /// asked when the caller is known to have the right: who has not learns nothing of locks.
    pub(crate) fn unlocked(&self, path: &ArchivePath, touch: Touch) -> Result<(), ArchiveError> {
        let Holding { locks, tokens } = &self.holding;
        if locks.is_empty() {
            return Ok(());
        }
        // Asked for each lock that covers a path, one path after the other: it is looked up once.
        let known: RefCell<Option<(ArchivePath, Option<AccessChain>)>> = RefCell::new(None);
        let reaches = |lock: &Lock, at: &ArchivePath| {
            let mut known = known.borrow_mut();
            if known.as_ref().is_none_or(|(path, _)| path != at) {
                *known = Some((at.clone(), self.engine.access_chain(at).ok()));
            }
            // What cannot be looked at counts as within reach.
            let Some((_, Some(chain))) = known.as_ref() else { return true };
            let is_directory = chain.exists && chain.is_directory;
            let target = if is_directory { Target::Directory } else { Target::File };
            decide(&lock.holder, Rights::MODIFY, at, target, &nodes(chain)).is_ok()
        };
        let held = (self.ledger.caller.name.as_str(), &tokens[..]);
        locks.admit(path, touch, held, &reaches, self.ledger.steady())
    }

    /// The same for a name that is new, with the directories that are made for it: it changes the nearest
    /// directory that is there.
    pub(crate) fn unlocked_new(&self, path: &ArchivePath) -> Result<(), ArchiveError> {
        if self.holding.locks.is_empty() {
            return Ok(());
        }
        self.unlocked(path, Touch::Itself)?;
        let mut made = path.clone();
        while let Some((directory, _)) = made.split() {
            if self.engine.access_chain(&directory)?.exists {
                break;
            }
            made = directory;
        }
        self.unlocked(&made, Touch::New)
    }

    /// The same for what is put: in place of another file it changes no directory.
    pub(crate) fn unlocked_put(&self, path: &ArchivePath) -> Result<(), ArchiveError> {
        if self.holding.locks.is_empty() {
            return Ok(());
        }
        if self.engine.access_chain(path)?.exists {
            return self.unlocked(path, Touch::Itself);
        }
        self.unlocked_new(path)
    }

    /// That the caller has these rights on a path.
    pub(crate) fn may(
        &self,
        verb: &'static str,
        rights: Rights,
        path: &ArchivePath,
    ) -> Result<(), ArchiveError> {
        self.may_current(verb, rights, path).map(drop)
    }

    /// The same, and gives what was looked at; `None` if there is nothing, or the caller is an admin.
    pub(crate) fn may_current(
        &self,
        verb: &'static str,
        rights: Rights,
        path: &ArchivePath,
    ) -> Result<Option<Entry>, ArchiveError> {
        if self.is_admin() {
            return Ok(None);
        }
        let chain = self.engine.access_chain(path)?;
        self.on(rights, path, None, &chain).or_else(|why| self.deny(verb, path, why))?;
        Ok(chain.entry)
    }

    /// The same for a directory that may not be there yet.
    pub(crate) fn may_make(&self, verb: &'static str, path: &ArchivePath) -> Result<(), ArchiveError> {
        if self.is_admin() {
            return Ok(());
        }
        let chain = self.engine.access_chain(path)?;
        let made = self.on(Rights::CREATE, path, Some(Target::Directory), &chain);
        match made {
            Err(_) if self.makes_buckets_beside(path)? => Ok(()),
            Err(why) => self.deny(verb, path, why),
            Ok(()) => Ok(()),
        }
    }

    /// Whether the list of the very directory that `path` stands in lets the caller make directories there,
    /// which are then theirs. Of what is there already the engine says so.
    fn makes_buckets_beside(&self, path: &ArchivePath) -> Result<bool, ArchiveError> {
        let Some((directory, _)) = path.split().filter(|_| !self.ledger.caller.is_confined()) else {
            return Ok(false);
        };
        let chain = self.engine.access_chain(&directory)?;
        let is_its_own = chain.exists && has_list_of_its_own(&chain);
        Ok(is_its_own && self.on(Rights::MAKE_BUCKETS, &directory, None, &chain).is_ok())
    }

    /// Whether the caller, who is no admin, may rename: what exactly, so that nothing else is renamed that
    /// gets the name meanwhile.
    pub(crate) fn may_rename(
        &self,
        verb: &'static str,
        from: &ArchivePath,
        to: &ArchivePath,
        replace: bool,
    ) -> Result<RenameOf, ArchiveError> {
        let chain = self.engine.access_chain(from)?;
        self.on(self.renaming(), from, None, &chain).or_else(|why| self.deny(verb, from, why))?;
        let target = self.engine.access_chain(to)?;
        let putting = self.putting_at(verb, to, !replace, &target)?;
        let (Some((left, _)), Some((entered, _))) = (from.split(), to.split()) else {
            return Err(ArchiveError::Exists(ArchivePath::root()));
        };
        let (Some(source), Some(from_parent)) = (chain.entry, chain.directory) else {
            return Err(ArchiveError::NotFound(from.clone()));
        };
        let to_parent = target.directory.ok_or(ArchiveError::NotFound(entered.clone()))?;
        let replace = replace && putting == Putting::Replace;
        let of = RenameOf { source, from_parent, to_parent, replace };
        if from_parent != to_parent {
            self.may_move(verb, (from, &left), (to, &entered), &chain, of)?;
        }
        Ok(of)
    }

    /// That a rename from one directory into another gives nobody rights that its caller could not give.
    ///
    /// What decides about a file are the owners and the list above it, so that it comes under others with a
    /// rename: in one's own directory everything is one's own. Where nobody gains, the right to rename is
    /// enough. Otherwise the caller must be able to read what they move, as if they copied it, and have all
    /// rights already that they would get: what was not theirs to stage must not become so. A file that is
    /// held cannot be renamed, so that managing it is no gain.
    ///
    /// With a macaroon, what its asker would gain counts as if they renamed it themselves: its caveats hide
    /// neither what they would get nor what they have. That others gain needs the right to read with the
    /// macaroon itself, whoever owns it: who holds one may be one of them.
    fn may_move(
        &self,
        verb: &'static str,
        (from, left): (&ArchivePath, &ArchivePath),
        (to, entered): (&ArchivePath, &ArchivePath),
        chain: &AccessChain,
        of: RenameOf,
    ) -> Result<(), ArchiveError> {
        let caller = &self.ledger.caller;
        let is_own = !caller.is_anonymous() && !caller.is_bounded() && chain.owner == caller.name;
        let target = if chain.is_directory { Target::Directory } else { Target::File };
        let (before, mut after) = (self.chain_in(left)?, self.chain_in(entered)?);
        let expected = (Some(Entry::Directory(of.from_parent)), Some(Entry::Directory(of.to_parent)));
        if (before.entry, after.entry) != expected {
            return Err(ArchiveError::TreeChanges);
        }
        let moves_list = chain.is_directory && has_list_of_its_own(chain);
        let others_gain = !is_own && !moves_list && !gives_nobody_more(&before, left, &after, entered);
        (after.exists, after.is_directory) = (true, chain.is_directory);
        (after.owner, after.group) = (chain.owner.clone(), chain.group.clone());
        if moves_list {
            (after.acl, after.acl_depth) = (chain.acl.clone(), after.above.len());
        }
        let asker = caller.unbounded();
        let known = rights_at(&asker, from, target, &nodes(chain));
        let given = rights_at(&asker, to, target, &nodes(&after));
        let harmless = if chain.is_directory { Rights::NONE } else { Rights::MANAGE | Rights::LIST };
        let mut gained = given.without(known).without(harmless | Rights::MAKE_BUCKETS);
        if others_gain {
            gained = gained | Rights::READ.without(rights_at(caller, from, target, &nodes(chain)));
        }
        if gained.is_empty() {
            return Ok(());
        }
        let why = format!(
            "it would come under other owners and lists, and the caller lacks the rights '{gained}' to it \
             where it is"
        );
        self.deny(verb, from, why)
    }

    /// The chain of something in a directory that is not there, or of which nothing is known. Its `entry` is
    /// the directory.
    fn chain_in(&self, directory: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        let mut chain = self.engine.access_chain(directory)?;
        if chain.exists && chain.is_directory {
            let (owner, group) = (std::mem::take(&mut chain.owner), std::mem::take(&mut chain.group));
            chain.above.insert(0, DirectoryOwner { owner, group, mode: chain.mode });
        }
        (chain.exists, chain.is_directory) = (false, false);
        Ok(chain)
    }

    /// Whether the caller has these rights, without a line in the log.
    pub(crate) fn has(&self, rights: Rights, path: &ArchivePath) -> Result<bool, ArchiveError> {
        if self.is_admin() {
            return Ok(true);
        }
        Ok(self.on(rights, path, None, &self.engine.access_chain(path)?).is_ok())
    }

    /// Whether and how the caller may put a file. `keeps`: whatever is there is to be kept anyway.
    pub(crate) fn putting(
        &self,
        verb: &'static str,
        path: &ArchivePath,
        keeps: bool,
    ) -> Result<Putting, ArchiveError> {
        if self.is_admin() {
            return Ok(Putting::Replace);
        }
        self.putting_at(verb, path, keeps, &self.engine.access_chain(path)?)
    }

    fn putting_at(
        &self,
        verb: &'static str,
        path: &ArchivePath,
        keeps: bool,
        chain: &AccessChain,
    ) -> Result<Putting, ArchiveError> {
        // Whoever may change may create, but for a macaroon that only lets delete.
        match self.on(Rights::MODIFY | Rights::CREATE, path, Some(Target::File), chain) {
            Ok(()) => Ok(Putting::Replace),
            Err(why) if chain.exists && !keeps => self.deny(verb, path, why),
            Err(_) => match self.on(Rights::CREATE, path, Some(Target::File), chain) {
                Ok(()) => Ok(Putting::Create),
                Err(why) => self.deny(verb, path, why),
            },
        }
    }
}

impl<E: Access + Objects + ?Sized> Rule<E> {
    /// As [`Rule::may_current`] for a version. It is its own owner's: whoever has put another one at its path
    /// since gets no right to it by that.
    pub(crate) fn may_version(
        &self,
        verb: &'static str,
        rights: Rights,
        path: &ArchivePath,
        which: Which,
    ) -> Result<Option<Entry>, ArchiveError> {
        let Some((directory, _)) = path.split().filter(|_| which != Which::Current && !self.is_admin())
        else {
            return self.may_current(verb, rights, path);
        };
        let mut chain = self.chain_in(&directory)?;
        match self.engine.object(path, which) {
            Ok(object) => {
                let Attributes { owner, group, .. } = object.file.attributes;
                (chain.exists, chain.owner, chain.group) = (true, owner, group);
                chain.entry = Some(Entry::File(object.file.file));
            }
            Err(
                ArchiveError::NotFound(_)
                | ArchiveError::DeleteMarker { .. }
                | ArchiveError::IsADirectory(_)
                | ArchiveError::NotADirectory(_),
            ) => {}
            Err(error) => return Err(error),
        }
        self.on(rights, path, Some(Target::File), &chain).or_else(|why| self.deny(verb, path, why))?;
        Ok(chain.entry)
    }
}

/// Files of a request that are looked at at a time.
const BOUND_FILES: usize = 4096;

impl<E: Staging + ?Sized> Rule<E> {
    /// Whether all files of a request are where a macaroon leaves the right to it; to look at a request the
    /// first one is enough, since its other files are only shown where they may be seen.
    fn is_within_bounds(&self, request: RequestId, looks: bool) -> Result<bool, ArchiveError> {
        if looks {
            self.files_within(request, Rights::POLL, true)
        } else {
            self.files_within(request, Rights::STAGE, false)
        }
    }

    fn files_within(
        &self,
        request: RequestId,
        wanted: Rights,
        is_first_enough: bool,
    ) -> Result<bool, ArchiveError> {
        if !self.ledger.caller.is_bounded() {
            return Ok(true);
        }
        let (mut from, limit) = (0, if is_first_enough { 1 } else { BOUND_FILES });
        loop {
            let (files, next) = self.engine.request_files(request, from, limit)?;
            if !files.iter().all(|file| self.bounds_leave(wanted, &file.path)) {
                return Ok(false);
            }
            match next.filter(|_| !is_first_enough) {
                Some(next) => from = next,
                None => return Ok(true),
            }
        }
    }

    /// A request that is the caller's own. To others it does not exist.
    pub(crate) fn own(
        &self,
        verb: &'static str,
        request: RequestId,
        looks: bool,
    ) -> Result<RequestInfo, ArchiveError> {
        let info = self.engine.request(request)?;
        if self.owns(&info, looks) && self.is_within_bounds(request, looks)? {
            return Ok(info);
        }
        self.not_own(verb, request)
    }

    /// The same, to be told what is true of all its files together: each has to be where a macaroon is for.
    pub(crate) fn own_whole(&self, verb: &'static str, request: RequestId) -> Result<(), ArchiveError> {
        self.own(verb, request, true)?;
        if self.files_within(request, Rights::POLL, false)? { Ok(()) } else { self.not_own(verb, request) }
    }

    fn not_own<T>(&self, verb: &'static str, request: RequestId) -> Result<T, ArchiveError> {
        self.ledger.write(verb, &format!("request {request}"), Outcome::Refused, "it is somebody else's");
        Err(ArchiveError::NoSuchRequest(request))
    }
}

/// The engine's chain as the decision wants it. A list that cannot be read gives nothing to anybody.
fn nodes(chain: &AccessChain) -> Vec<Node> {
    let mut acl = chain.acl.as_ref().map(|entries| {
        read_acl(entries).unwrap_or_else(|error| {
            tracing::error!(%error, "an access control list cannot be read: it allows nothing");
            Acl::default()
        })
    });
    let mut node = |owner: &str, group: &str, depth: Option<usize>| {
        let acl = if depth == Some(chain.acl_depth) { acl.take() } else { None };
        Node { owner: owner.to_owned(), group: group.to_owned(), acl }
    };
    let mut nodes = Vec::with_capacity(chain.above.len() + 1);
    if chain.exists {
        let depth = chain.is_directory.then_some(chain.above.len());
        nodes.push(node(&chain.owner, &chain.group, depth));
    }
    let above = chain.above.len();
    nodes.extend(
        chain
            .above
            .iter()
            .enumerate()
            .map(|(n, directory)| node(&directory.owner, &directory.group, Some(above - 1 - n))),
    );
    nodes
}

/// Whether the list of a directory's chain is the one of the directory itself.
fn has_list_of_its_own(chain: &AccessChain) -> bool {
    chain.is_directory && chain.acl.is_some() && chain.acl_depth == chain.above.len()
}

/// Whether all who decide about a file in the directory `entered` decide about one in `left` too: the same
/// list, or none, and below it no other owners. The chains are those of [`Rule::chain_in`].
fn gives_nobody_more(
    before: &AccessChain,
    left: &ArchivePath,
    after: &AccessChain,
    entered: &ArchivePath,
) -> bool {
    fn list<'p>(chain: &AccessChain, path: &'p ArchivePath) -> Option<Vec<&'p str>> {
        chain.acl.as_ref().map(|_| path.components().take(chain.acl_depth).collect())
    }
    fn owners(chain: &AccessChain) -> BTreeSet<&str> {
        let listed = chain.acl.as_ref().map_or(0, |_| chain.acl_depth);
        let reach = chain.above.len().saturating_sub(listed);
        let owners = chain.above.iter().take(reach).map(|directory| directory.owner.as_str());
        owners.filter(|owner| !owner.is_empty()).collect()
    }
    list(before, left) == list(after, entered) && owners(after).is_subset(&owners(before))
}

/// The list that these stored entries are.
pub(crate) fn read_acl(entries: &[archive::AclEntry]) -> Result<Acl, AclError> {
    let entry = |stored: &archive::AclEntry| {
        let rights = Rights::from_bits(stored.rights).ok_or(AclError::Bits(stored.rights))?;
        Ok(AclEntry { subject: stored.subject.parse()?, rights })
    };
    Acl::new(entries.iter().map(entry).collect::<Result<_, AclError>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> DirectoryOwner {
        DirectoryOwner { owner: name.to_owned(), group: String::new(), mode: 0 }
    }

    #[test]
    fn the_list_stands_at_its_own_directory() {
        let acl = Some(vec![archive::AclEntry { subject: "anyone".to_owned(), rights: 4 }]);
        let file = AccessChain {
            exists: true,
            owner: "anna".to_owned(),
            acl,
            acl_depth: 1,
            above: vec![owner("b"), owner("a"), owner("root")],
            ..AccessChain::default()
        };
        let places = |chain: &AccessChain| {
            let nodes = nodes(chain);
            nodes
                .iter()
                .map(|node| format!("{}{}", node.owner, if node.acl.is_some() { "*" } else { "" }))
                .collect::<Vec<_>>()
        };
        assert_eq!(places(&file), ["anna", "b", "a*", "root"]);
        let directory = AccessChain { is_directory: true, acl_depth: 3, ..file.clone() };
        assert_eq!(places(&directory), ["anna*", "b", "a", "root"]);
        let missing = AccessChain { exists: false, acl_depth: 0, ..file };
        assert_eq!(places(&missing), ["b", "a", "root*"]);
    }

    #[test]
    fn a_list_that_cannot_be_read_gives_nothing() {
        let entries = vec![archive::AclEntry { subject: "anyone".to_owned(), rights: 1 << 20 }];
        let chain =
            AccessChain { exists: true, is_directory: true, acl: Some(entries), ..AccessChain::default() };
        assert_eq!(nodes(&chain)[0].acl, Some(Acl::default()));
    }
}
