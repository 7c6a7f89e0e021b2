//! Where a new file belongs: its class and its data set.

use base::{ArchivePath, Blake3, ByteCount, DirId};

use crate::Namespace;
use ground::ArchiveError;
use ground::Class;

/// The data set of a class that is one; no directory has this number.
const WHOLE_CLASS: u64 = 0;

impl Namespace {
    /// The class that the client named, else the nearest directory's, else by size.
    pub fn class_for(
        &self,
        named: Option<&str>,
        parent: DirId,
        size: ByteCount,
    ) -> Result<Class, ArchiveError> {
        if let Some(class) = self.class_of_place(named, parent)? {
            return Ok(class);
        }
        let by_size = self.ground.classes.by_size(size).cloned();
        by_size.ok_or_else(|| ArchiveError::NoSuchClass { name: String::new(), known: String::new() })
    }

    /// The class that the client named, else the nearest directory's; `None` if sizes decide.
    fn class_of_place(&self, named: Option<&str>, parent: DirId) -> Result<Option<Class>, ArchiveError> {
        let classes = &self.ground.classes;
        if let Some(name) = named {
            return classes.by_name(name).cloned().map(Some);
        }
        let inherited = self.ground.read(|view| {
            let mut at = parent;
            while let Some(directory) = view.directory_or_gone(at, parent)? {
                if let Some(class) = directory.class.and_then(|id| classes.get(id)) {
                    return Ok(Some(class));
                }
                if at == DirId::ROOT {
                    break;
                }
                at = directory.parent;
            }
            Ok(None)
        })?;
        Ok(inherited.cloned())
    }

    /// What a file belongs to: the client's hint, else a directory above it, as deep as its class says.
    pub fn data_set_for(
        &self,
        hint: Option<&str>,
        (parent_path, parent): (&ArchivePath, DirId),
        class: &Class,
    ) -> Result<u64, ArchiveError> {
        if let Some(hint) = hint {
            // Hints live above all directory ids, so that the two never mix.
            let hash = Blake3::of(hint.as_bytes()).0;
            return Ok(
                (1 << 63) | hash.iter().take(7).fold(0, |number, byte| (number << 8) | u64::from(*byte))
            );
        }
        let Some(depth) = class.settings.data_set_depth.map(usize::from) else { return Ok(parent.0) };
        if depth == 0 {
            return Ok(WHOLE_CLASS);
        }
        // From the file upwards, so that a directory that is moved meanwhile does no harm.
        self.ground.read(|view| {
            let (mut at, mut above) = (parent, parent_path.components().count().saturating_sub(depth));
            while above > 0 && at != DirId::ROOT {
                let Some(directory) = view.directory_or_gone(at, parent)? else { break };
                (at, above) = (directory.parent, above - 1);
            }
            Ok(at.0)
        })
    }
}
