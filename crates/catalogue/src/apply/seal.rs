//! Containers: their ids, and the moment that fixes what they hold.

use base::{ByteCount, ClassId, ContainerId, FileId};

use super::{copy, lifecycle, limit, namespace, pool};
use crate::command::{CONTAINER_MEMBERS_MAX, Outcome, SealContainer};
use crate::draft::Draft;
use crate::encoding::{MemberValue, PartRecord};
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{
    ClassRecord, ContainerCopy, ContainerKind, ContainerRecord, Counter, FileRecord, FileState, MemberRecord,
    TodoFile,
};
use crate::table::Table;

/// Most bytes in a container's path on tape.
const TAPE_PATH_BYTES_MAX: usize = 8192;

pub(super) fn reserve(draft: &mut Draft<'_>) -> Result<Outcome, Rejection> {
    let id = draft.change_meta(|meta| {
        meta.next_container += 1;
        ContainerId(meta.next_container - 1)
    })?;
    assert!(draft.view().container(id)?.is_none(), "the number of a new container was never given");
    Ok(Outcome::Container(id))
}

pub(super) fn malformed(id: ContainerId, what: &'static str) -> Rejection {
    Rejection::Malformed { object: Object::Container(id), what }
}

pub(super) fn seal(draft: &mut Draft<'_>, seal: &SealContainer) -> Result<Outcome, Rejection> {
    let id = seal.container;
    limit("members of a container", seal.members.len(), CONTAINER_MEMBERS_MAX)?;
    let class = check_new(draft, id, seal.class)?;
    check_shape(id, &seal.kind, &seal.members, seal.length, &seal.tape_path)?;
    check_skeleton(seal)?;
    for member in &seal.members {
        add_member(draft, seal, member)?;
    }
    let skeleton = match &seal.skeleton {
        Some(data) => {
            pool::take(draft, data)?;
            data.pieces.first().copied()
        }
        None => None,
    };
    let record = ContainerRecord {
        kind: seal.kind.clone(),
        class: seal.class,
        length: seal.length,
        checksums: seal.checksums,
        sealed: draft.at,
        tape_path: seal.tape_path.clone(),
        skeleton,
        image: None,
        copies: class.copies.iter().copied().map(ContainerCopy::queued).collect(),
        live_members: u32::try_from(seal.members.len()).unwrap_or(u32::MAX),
        live_bytes: ByteCount(seal.members.iter().map(|member| member.length.0).sum()),
        condemned_members: 0,
    };
    assert!(record.live_bytes <= record.length, "the members of a container are part of it");
    assert!(!record.copies.is_empty(), "what is sealed waits for at least one tape");
    assert!(record.skeleton.is_none() || record.kind == ContainerKind::Pack, "only a pack has a skeleton");
    draft.put(Table::Container, key::container(id), &record);
    queue_copies(draft, id, &record)?;
    Ok(Outcome::Done)
}

/// Checks that the id is reserved and not taken yet; gives the class, which has tape copies.
pub(super) fn check_new(
    draft: &Draft<'_>,
    id: ContainerId,
    class: ClassId,
) -> Result<ClassRecord, Rejection> {
    if id.0 == 0 || id.0 >= draft.meta()?.next_container {
        return Err(Rejection::NotFound(Object::Container(id)));
    }
    if draft.view().container(id)?.is_some() {
        let object = Object::Container(id);
        return Err(Rejection::WrongState { object, state: "sealed", needed: "reserved and not sealed yet" });
    }
    class_on_tape(draft, class)
}

pub(super) fn class_on_tape(draft: &Draft<'_>, id: ClassId) -> Result<ClassRecord, Rejection> {
    let class = namespace::class(draft, id)?;
    if class.copies.is_empty() {
        let object = Object::Class(id);
        return Err(Rejection::WrongState { object, state: "disk only", needed: "one with tape copies" });
    }
    Ok(class)
}

/// All copies of a new container wait to be written.
pub(super) fn queue_copies(
    draft: &mut Draft<'_>,
    id: ContainerId,
    record: &ContainerRecord,
) -> Result<(), Rejection> {
    for queued in &record.copies {
        copy::put_queued(draft, queued.tape_pool, id, record)?;
    }
    count_pack(draft, record)
}

pub(super) fn count_pack(draft: &mut Draft<'_>, record: &ContainerRecord) -> Result<(), Rejection> {
    if record.kind == ContainerKind::Pack {
        draft.count(Counter::PacksSealed, 1, record.length.0)?;
    }
    Ok(())
}

pub(super) fn check_tape_path(id: ContainerId, path: &str) -> Result<(), Rejection> {
    limit("bytes of a path on tape", path.len(), TAPE_PATH_BYTES_MAX)?;
    if !path.starts_with('/') {
        return Err(malformed(id, "the path on tape must begin with '/'"));
    }
    Ok(())
}

/// Checks what members and kind say by themselves.
pub(super) fn check_shape(
    id: ContainerId,
    kind: &ContainerKind,
    members: &[MemberRecord],
    length: ByteCount,
    tape_path: &str,
) -> Result<(), Rejection> {
    let bad = |what| Err(malformed(id, what));
    check_tape_path(id, tape_path)?;
    if members.is_empty() {
        return bad("a container needs at least one member");
    }
    let mut end = 0;
    for member in members {
        let member_end = member.data_offset.0.checked_add(member.length.0);
        let Some(member_end) = member_end.filter(|member_end| *member_end <= length.0) else {
            return bad("a member reaches beyond the end of the container");
        };
        if member.header_offset.0 < end || member.data_offset < member.header_offset {
            return bad("the members overlap or are not in the order of their offsets");
        }
        end = member_end;
    }
    match (kind, members) {
        (ContainerKind::Pack, members) => {
            if members.iter().any(|member| member.file_offset.0 != 0) {
                return bad("a pack holds whole files only");
            }
            Ok(())
        }
        (ContainerKind::File(file), [only]) => {
            if (only.file, only.file_offset.0, only.header_offset) != (*file, 0, only.data_offset) {
                return bad("the member is not the whole file that the container is for");
            }
            Ok(())
        }
        (ContainerKind::Segment { file, file_offset }, [only]) => {
            if (only.file, only.file_offset, only.header_offset) != (*file, *file_offset, only.data_offset) {
                return bad("the member is not the part of the file that the container is for");
            }
            if (only.data_offset.0, only.length) != (0, length) {
                return bad("a part of a file is all that its container holds");
            }
            Ok(())
        }
        _ => bad("a file or segment container has exactly one member"),
    }
}

fn check_skeleton(seal: &SealContainer) -> Result<(), Rejection> {
    let what = match &seal.skeleton {
        None => return Ok(()),
        Some(_) if seal.kind != ContainerKind::Pack => "only a pack has a skeleton",
        Some(skeleton) if skeleton.pieces.len() != 1 => "a pack's skeleton must be one piece",
        Some(_) => return Ok(()),
    };
    Err(malformed(seal.container, what))
}

fn add_member(draft: &mut Draft<'_>, seal: &SealContainer, member: &MemberRecord) -> Result<(), Rejection> {
    let file = waiting_file(draft, seal.class, member.file)?;
    enter_member(draft, seal.container, &seal.kind, member, &file)
}

/// Makes a file, or the part of it that comes next, a member of a container.
pub(super) fn enter_member(
    draft: &mut Draft<'_>,
    container: ContainerId,
    kind: &ContainerKind,
    member: &MemberRecord,
    file: &FileRecord,
) -> Result<(), Rejection> {
    let id = member.file;
    let sealed = draft.view().parts(id)?.iter().map(|(_, part)| part.length.0).sum::<u64>();
    let end = sealed.checked_add(member.length.0);
    let is_segment = matches!(kind, ContainerKind::Segment { .. });
    let fits = match end {
        Some(end) if is_segment => end <= file.size.0 && member.length.0 > 0,
        Some(end) => end == file.size.0,
        None => false,
    };
    if member.file_offset.0 != sealed || !fits {
        let what = "the member does not continue what is sealed of the file, or does not have its size";
        return Err(Rejection::Malformed { object: Object::File(id), what });
    }
    if end == Some(file.size.0) {
        lifecycle::drop_todo(draft, id, file)?;
    }
    assert!(member.header_offset <= member.data_offset, "a member's header stands before its bytes");
    let part = PartRecord { container, data_offset: member.data_offset };
    draft.put(Table::Part, key::part(id, member.file_offset), &part);
    let value = MemberValue {
        header_length: ByteCount(member.data_offset.0 - member.header_offset.0),
        length: member.length,
        file_offset: member.file_offset,
    };
    draft.put(Table::Member, key::member(container, member.data_offset, id), &value);
    debug_assert_eq!(
        draft.view().parts(id)?.iter().map(|(_, part)| part.length.0).sum::<u64>(),
        sealed + member.length.0,
        "the parts of a file are read again as they were sealed"
    );
    Ok(())
}

/// A file that waits to be sealed into a container of this class.
pub(super) fn waiting_file(draft: &Draft<'_>, class: ClassId, id: FileId) -> Result<FileRecord, Rejection> {
    let file = draft.view().file(id)?.filter(|file| file.state == FileState::Live);
    let file = file.ok_or(Rejection::NotFound(Object::File(id)))?;
    let todo = draft.view().get::<TodoFile>(Table::Todo, &key::todo(file.class, file.dataset, id))?;
    if todo.is_none() || file.class != class {
        let state = "of another class or not waiting to be sealed";
        let needed = "in the container's class and waiting to be sealed";
        return Err(Rejection::WrongState { object: Object::File(id), state, needed });
    }
    Ok(file)
}
