//! Trees that are removed at once: their directory loses its name with one command, and what is in them goes
//! behind, in batches.
//!
//! The directory keeps its parent, so that the quotas above and the bucket are those of before until the last
//! file is gone. If that parent is removed meanwhile, the one above takes its place.

use std::collections::{BTreeMap, VecDeque};

use base::{DirId, FileId, Name};

use super::{lifecycle, limit, namespace, quota, upload};
use crate::command::{Outcome, RemovedFile, TREE_ROWS_LOOKED_MAX, TREES_MAX};
use crate::draft::Draft;
use crate::error::{NotAtOnce, Object, ReadError, Rejection};
use crate::key::{self, KeyReader};
use crate::record::{BucketRecord, Counter, DirectoryRecord, Entry, FileRecord, TreeRecord};
use crate::table::Table;

/// Names of a directory read together, which a batch may leave unused on each level.
const NAMES_PAGE: usize = 32;
/// What is told to those who wait for a file of such a tree.
const DELETED: &str = "the file was deleted";

/// Whether a directory that is there is being removed with the tree it stands in.
pub(super) fn is_condemned(draft: &Draft<'_>, directory: DirId) -> Result<bool, Rejection> {
    Ok(draft.tallied(Counter::Trees)?.files > 0 && draft.view().tree_above(directory)?.is_some())
}

pub(super) fn condemn(
    draft: &mut Draft<'_>,
    (parent, name): (DirId, &Name),
    directory: DirId,
    owner: &str,
    with_lists: bool,
) -> Result<Outcome, Rejection> {
    limit("bytes of the name of who removes a tree", owner.len(), namespace::PERSON_BYTES_MAX)?;
    namespace::check_entry(draft, (parent, name), Entry::Directory(directory))?;
    if let Some(why) = obstacle(draft, directory, with_lists)? {
        return Err(Rejection::NotAtOnce { parent, name: name.clone(), why });
    }
    let path = draft.view().path_of_directory(directory)?;
    let path = path.ok_or_else(|| ReadError::inconsistent(Table::Directory, &key::directory(directory)))?;
    if !make_room(draft)? {
        return Err(Rejection::NotAtOnce {
            parent,
            name: name.clone(),
            why: NotAtOnce::ManyTrees(TREES_MAX),
        });
    }
    let record = TreeRecord {
        owner: owner.to_owned(),
        path,
        condemned: draft.at,
        ended: None,
        files: 0,
        bytes: Default::default(),
        directories: 0,
    };
    draft.remove(Table::Entry, key::entry(parent, name.as_str()));
    namespace::forget_settings(draft, directory)?;
    draft.put(Table::Tree, key::directory(directory), &record);
    draft.count(Counter::Trees, 1, 0)?;
    assert!(is_condemned(draft, directory)?, "nothing is found any more below a condemned tree");
    Ok(Outcome::Done)
}

/// Why a tree is not condemned with one command, as far as that is known without reading the tree.
fn obstacle(draft: &Draft<'_>, directory: DirId, with_lists: bool) -> Result<Option<NotAtOnce>, Rejection> {
    let bucket = draft.view().bucket_of(directory)?.map(|(_, bucket)| bucket);
    if bucket.is_some_and(|bucket| BucketRecord::keeps_versions(&bucket)) {
        return Ok(Some(NotAtOnce::Versions));
    }
    if upload::any_below(draft, directory)? {
        return Ok(Some(NotAtOnce::Uploads));
    }
    let mut below = Below { draft, directory, known: BTreeMap::new() };
    let held = below.first(Table::Hold, |draft, id| {
        let file: FileRecord = draft.view().expect(Table::File, &key::file(FileId(id)))?;
        Ok(file.parent)
    })?;
    match held {
        Looked::None => {}
        Looked::TooMany => return Ok(Some(NotAtOnce::ManyHeld(TREE_ROWS_LOOKED_MAX))),
        Looked::Found(id) => {
            let file: FileRecord = draft.view().expect(Table::File, &key::file(FileId(id)))?;
            return Ok(Some(NotAtOnce::Held { file: FileId(id), name: file.name }));
        }
    }
    if with_lists {
        return Ok(None);
    }
    // The list of the directory itself has decided that its caller may.
    let listed = below.first(Table::Acl, |draft, id| match DirId(id) == directory {
        true => Ok(DirId::ROOT),
        false => Ok(draft.view().existing_directory(DirId(id)).map(|_| DirId(id))?),
    })?;
    Ok(match listed {
        Looked::None => None,
        Looked::TooMany => Some(NotAtOnce::ManyLists(TREE_ROWS_LOOKED_MAX)),
        Looked::Found(id) => Some(NotAtOnce::List(DirId(id))),
    })
}

/// What a look through a table has found below a directory.
enum Looked {
    None,
    Found(u64),
    TooMany,
}

/// Tells which directories are below one.
struct Below<'d, 't> {
    draft: &'d Draft<'t>,
    directory: DirId,
    known: BTreeMap<DirId, bool>,
}

impl Below<'_, '_> {
    /// The first object of a table, whose keys are ids, that stands at or below the directory; none is told
    /// if both the table and the tree are too long for a look at all of them.
    fn first(
        &mut self,
        table: Table,
        stands_in: impl Fn(&Draft<'_>, u64) -> Result<DirId, Rejection>,
    ) -> Result<Looked, Rejection> {
        let read = |mut parts: KeyReader<'_>, _: &[u8], _: &[u8]| parts.u64();
        let ids = self.draft.view().rows(table, &[], None, TREE_ROWS_LOOKED_MAX + 1, read)?;
        if ids.len() > TREE_ROWS_LOOKED_MAX {
            return self.first_in_tree(table);
        }
        for id in ids {
            if self.has(stands_in(self.draft, id)?)? {
                return Ok(Looked::Found(id));
            }
        }
        Ok(Looked::None)
    }

    /// The same by the names in the tree, if these are few: so a small tree does not depend on what stands
    /// elsewhere.
    fn first_in_tree(&self, table: Table) -> Result<Looked, Rejection> {
        let mut left = TREE_ROWS_LOOKED_MAX;
        let mut way = vec![Walked::begin(self.directory)];
        while let Some(walked) = way.last_mut() {
            let Some((_, entry)) = walked.next(self.draft)? else {
                way.pop();
                continue;
            };
            let Some(less) = left.checked_sub(1) else { return Ok(Looked::TooMany) };
            left = less;
            let (id, row) = match (entry, table) {
                (Entry::File(id), Table::Hold) => (id.0, Some(key::file(id))),
                (Entry::Directory(id), Table::Acl) => (id.0, Some(key::acl(id))),
                (Entry::File(FileId(id)) | Entry::Directory(DirId(id)), _) => (id, None),
            };
            if let Some(row) = row
                && self.draft.view().has(table, &row)?
            {
                return Ok(Looked::Found(id));
            }
            if let Entry::Directory(below) = entry {
                way.push(Walked::begin(below));
            }
        }
        Ok(Looked::None)
    }

    fn has(&mut self, at: DirId) -> Result<bool, ReadError> {
        if let Some(known) = self.known.get(&at) {
            return Ok(*known);
        }
        let is_below = quota::is_below(self.draft, at, self.directory)?;
        self.known.insert(at, is_below);
        Ok(is_below)
    }
}

/// Has room for one more tree: the one that was gone first is forgotten. Gives whether there is room.
fn make_room(draft: &mut Draft<'_>) -> Result<bool, Rejection> {
    let trees = draft.view().trees()?;
    if trees.len() < TREES_MAX {
        return Ok(true);
    }
    let ended = trees.iter().filter_map(|(id, tree)| tree.ended.map(|at| (at, *id)));
    let Some((_, oldest)) = ended.min() else { return Ok(false) };
    draft.remove(Table::Tree, key::directory(oldest));
    Ok(true)
}

/// Has trees that were condemned in a directory stand in the one above it, since theirs is being removed.
pub(super) fn move_up(draft: &mut Draft<'_>, directory: DirId, above: DirId) -> Result<(), Rejection> {
    let trees = still_removed(draft)?;
    move_some_up(draft, &trees, directory, above)
}

/// The trees that are being removed.
fn still_removed(draft: &Draft<'_>) -> Result<Vec<DirId>, Rejection> {
    if draft.tallied(Counter::Trees)?.files == 0 {
        return Ok(Vec::new());
    }
    let trees = draft.view().trees()?;
    Ok(trees.into_iter().filter(|(_, tree)| tree.ended.is_none()).map(|(id, _)| id).collect())
}

fn move_some_up(
    draft: &mut Draft<'_>,
    trees: &[DirId],
    directory: DirId,
    above: DirId,
) -> Result<(), Rejection> {
    for id in trees.iter().copied().filter(|id| *id != directory) {
        let key = key::directory(id);
        let record: Option<DirectoryRecord> = draft.view().get(Table::Directory, &key)?;
        if let Some(mut record) = record.filter(|record| record.parent == directory) {
            record.parent = above;
            draft.put(Table::Directory, key, &record);
        }
    }
    Ok(())
}

/// Removes the next files and directories of a condemned tree, at most `most`.
pub(super) fn remove_some(draft: &mut Draft<'_>, id: DirId, most: usize) -> Result<Outcome, Rejection> {
    let known = draft.view().tree(id)?.filter(|tree| tree.ended.is_none());
    let mut removal = Removal {
        tree: known.ok_or(Rejection::NotFound(Object::Directory(id)))?,
        files: Vec::new(),
        others: still_removed(draft)?,
        left: most,
    };
    let counted = removal.tree.files;
    let mut way = vec![Walked::begin(id)];
    while removal.left > 0
        && let Some(walked) = way.last_mut()
    {
        let at = walked.directory;
        match walked.next(draft)? {
            Some((_, Entry::Directory(below))) => way.push(Walked::begin(below)),
            Some((name, Entry::File(file))) => removal.remove_file(draft, (at, &name), file)?,
            None => {
                if removal.remove_directory(draft, at, id)? {
                    way.pop();
                }
            }
        }
    }
    let more = removal.tree.ended.is_none();
    assert!(!more || removal.left == 0, "a part is as much as was asked for, or the last one");
    assert_eq!(removal.tree.files - counted, removal.files.len() as u64, "each removed file is told");
    if !more {
        assert!(draft.view().directory(id)?.is_none(), "the directory goes last");
        draft.discount(Counter::Trees, 1, 0)?;
    }
    draft.put(Table::Tree, key::directory(id), &removal.tree);
    Ok(Outcome::TreeRemoved { files: removal.files, more })
}

/// One batch of a removal.
struct Removal {
    tree: TreeRecord,
    files: Vec<RemovedFile>,
    /// All trees that are being removed: looked up once, not for each directory.
    others: Vec<DirId>,
    /// Rows that it may still change.
    left: usize,
}

impl Removal {
    fn remove_file(
        &mut self,
        draft: &mut Draft<'_>,
        (at, name): (DirId, &Name),
        id: FileId,
    ) -> Result<(), Rejection> {
        let file: FileRecord = draft.view().expect(Table::File, &key::file(id))?;
        let (class, size) = (file.class, file.size);
        let wanted = !draft.view().wants(id)?.is_empty();
        lifecycle::condemn(draft, id, file, DELETED)?;
        draft.remove(Table::Entry, key::entry(at, name.as_str()));
        self.files.push(RemovedFile { file: id, class, size, wanted });
        self.tree.files += 1;
        self.tree.bytes.0 = self.tree.bytes.0.saturating_add(size.0);
        self.left -= 1;
        Ok(())
    }

    /// Removes a directory without names, once nothing counts there any more; gives whether it is gone.
    fn remove_directory(&mut self, draft: &mut Draft<'_>, at: DirId, top: DirId) -> Result<bool, Rejection> {
        let record: DirectoryRecord = draft.view().expect(Table::Directory, &key::directory(at))?;
        let moved = upload::move_some(draft, at, record.parent, self.left)?;
        assert!(moved <= self.left, "no more uploads are moved than were asked for");
        self.left -= moved;
        if self.left == 0 {
            return Ok(false);
        }
        move_some_up(draft, &self.others, at, record.parent)?;
        if at == top {
            self.tree.ended = Some(draft.at);
        } else if let Some(name) = &record.name {
            draft.remove(Table::Entry, key::entry(record.parent, name.as_str()));
        }
        draft.remove(Table::Directory, key::directory(at));
        namespace::forget_settings(draft, at)?;
        self.tree.directories += 1;
        self.left -= 1;
        Ok(true)
    }
}

/// A directory whose names are removed in their order. Each is read once: those that the batch has removed
/// stand in the transaction until its end, and a list from the first name on would pass over all of them.
struct Walked {
    directory: DirId,
    page: VecDeque<(Name, Entry)>,
    last: Option<Name>,
}

impl Walked {
    fn begin(directory: DirId) -> Self {
        Walked { directory, page: VecDeque::new(), last: None }
    }

    fn next(&mut self, draft: &Draft<'_>) -> Result<Option<(Name, Entry)>, ReadError> {
        if self.page.is_empty() {
            self.page = draft.view().list(self.directory, self.last.as_ref(), NAMES_PAGE)?.into();
        }
        let next = self.page.pop_front();
        self.last = next.as_ref().map(|(name, _)| name.clone()).or(self.last.take());
        Ok(next)
    }
}
