//! The reference: packs that are sealed in pieces.

use base::*;
use catalogue::*;

use super::reference::{Container, Model};

impl Model {
    pub fn seal_in_pieces(&mut self, command: &Command) -> Result<(), &'static str> {
        match command {
            Command::OpenPack(open) => self.open_pack(open),
            Command::AddMembers { container, members } => self.add_members(*container, members),
            Command::ClosePack { container } => self.close_pack(*container),
            _ => unreachable!("{command:?}"),
        }
    }

    fn open_pack(&mut self, open: &OpenPack) -> Result<(), &'static str> {
        if open.container.0 >= self.next_container {
            return Err("NotFound");
        }
        if self.containers.contains_key(&open.container) {
            return Err("WrongState");
        }
        if self.class(open.class).ok_or("NotFound")?.copies.is_empty() {
            return Err("WrongState");
        }
        if open.members == 0 || open.skeleton.pieces.len() != 1 {
            return Err("Malformed");
        }
        self.take(&open.skeleton.blobs)?;
        let container = Container {
            kind: ContainerKind::Pack,
            class: open.class,
            length: open.length,
            checksums: open.checksums,
            sealed: self.at,
            tape_path: open.tape_path.clone(),
            skeleton: Some(open.skeleton.pieces[0]),
            image: None,
            copies: Vec::new(),
            members: Vec::new(),
        };
        self.packs.files += 1;
        self.packs.bytes.0 += open.length.0;
        self.reserved.remove(&open.container);
        self.sealing.insert(open.container, (open.members, 0, 0));
        self.containers.insert(open.container, container);
        Ok(())
    }

    fn add_members(&mut self, id: ContainerId, members: &[MemberRecord]) -> Result<(), &'static str> {
        let class = self.containers.get(&id).ok_or("NotFound")?.class;
        let (wanted, added, end) = *self.sealing.get(&id).ok_or("WrongState")?;
        let (Some(first), Some(last)) = (members.first(), members.last()) else { return Err("Malformed") };
        let count = added + members.len() as u32;
        if count > wanted || first.header_offset.0 < end {
            return Err("Malformed");
        }
        for member in members {
            let file = self.live(member.file).ok_or("NotFound")?;
            if !self.todo.contains(&member.file) || file.class != class {
                return Err("WrongState");
            }
            if !self.parts(member.file).is_empty() || file.size != member.length {
                return Err("Malformed");
            }
            self.todo.remove(&member.file);
        }
        self.sealing.insert(id, (wanted, count, last.data_offset.0 + last.length.0));
        self.containers.get_mut(&id).unwrap().members.extend(members);
        Ok(())
    }

    fn close_pack(&mut self, id: ContainerId) -> Result<(), &'static str> {
        let class = self.containers.get(&id).ok_or("NotFound")?.class;
        let (wanted, added, _) = *self.sealing.get(&id).ok_or("WrongState")?;
        if wanted != added {
            return Err("Malformed");
        }
        let copies = self.class(class).unwrap().copies.clone();
        if copies.is_empty() {
            return Err("WrongState");
        }
        let (at, record) = (self.at, self.containers.get_mut(&id).unwrap());
        record.sealed = at;
        let queued = |tape_pool| ContainerCopy { tape_pool, state: CopyState::Queued, source: None };
        record.copies = copies.into_iter().map(queued).collect();
        self.sealing.remove(&id);
        Ok(())
    }
}

/// The next step of a pack that is being sealed, or a new one; `seal` says what might be sealed at once.
pub fn command(model: &Model, seal: &SealContainer, picks: &[u16; 6]) -> Command {
    let all: Vec<_> = model.sealing.iter().map(|(id, sealing)| (*id, *sealing)).collect();
    let chosen = all.get(usize::from(picks[2]) % all.len().max(1)).copied();
    let Some((container, (wanted, added, end))) = chosen.filter(|_| picks[3] % 4 > 0) else {
        // Now and then in two pieces, which is refused; it was always, and hardly a pack was ever opened.
        let pieces = u16::from(picks[4] % 8 == 7);
        let skeleton = seal.skeleton.clone().unwrap_or_else(|| super::steps::data(model, 700, pieces));
        return Command::OpenPack(Box::new(OpenPack {
            container: seal.container,
            class: seal.class,
            members: u32::from(picks[4] % 4),
            length: ByteCount(20_000),
            checksums: seal.checksums,
            tape_path: seal.tape_path.clone(),
            skeleton,
        }));
    };
    if picks[3] % 9 == 0 {
        return Work::DissolvePack(container).some();
    }
    if wanted == added || picks[3] % 8 == 0 {
        return Command::ClosePack { container };
    }
    let class = model.containers[&container].class;
    let waiting = model.todo.iter().filter(|id| picks[4] % 8 == 0 || model.files[id].class == class);
    let mut at = if picks[5] % 16 == 0 { end.saturating_sub(1) } else { end };
    // Most often as many as are missing: else a pack is hardly ever complete.
    let missing = usize::try_from(wanted.saturating_sub(added)).unwrap_or(1).max(1);
    let count = if picks[0] % 4 == 0 { 1 + usize::from(picks[0] % 2) } else { missing };
    let members = waiting.skip(usize::from(picks[5]) % 3).take(count).map(|file| {
        let length = model.files[file].size;
        // Each has a header of its own, an empty file too.
        let (header_offset, data_offset) = (ByteCount(at), ByteCount(at + 512));
        at += 512 + length.0;
        MemberRecord { file: *file, header_offset, data_offset, length, file_offset: ByteCount(0) }
    });
    Command::AddMembers { container, members: members.collect() }
}
