//! Tape data encryption: SECURITY PROTOCOL IN and OUT, and what then stands on the cartridge.

use library::scsi::ProtectionWish;
use library::{BlockEncryption, CartridgeReader, EncryptionKey, KeyIdentity, TapeEncryption, TapeError};
use scsi::command::{Command, PersistentOut, Primary, Stream};
use scsi::reservation::{ReservationType, ReserveOut};
use scsi::security::{
    BlockEncryption as NextBlock, DecryptionMode, EncryptionAlgorithm, EncryptionCapabilities,
    EncryptionKey as Key, EncryptionManagement, EncryptionMode, EncryptionPages, EncryptionScope,
    EncryptionStatus, KadType, KeyAssociatedData, KeyFormats, NextBlockStatus, ProtocolList,
    SetDataEncryption, page,
};
use scsi::{Data, Packed, Sense, Status};

use crate::common::*;
use crate::drive_suite::Rig;
use crate::scsi_drive::{ScsiRig, Way};

const OTHER: &str = "iqn.2026-01.org.kist:other";

fn kad(kind: KadType, data: &[u8]) -> KeyAssociatedData {
    KeyAssociatedData { kind, authenticated: 0, data: data.to_vec() }
}

fn set(key: u8) -> SetDataEncryption {
    SetDataEncryption {
        scope: EncryptionScope::AllNexus,
        encryption: EncryptionMode::Encrypt,
        decryption: DecryptionMode::Mixed,
        algorithm: 1,
        key: Key(vec![key; 32]),
        associated: vec![kad(KadType::Unauthenticated, &[b'k', key])],
        ..SetDataEncryption::default()
    }
}

fn off() -> SetDataEncryption {
    SetDataEncryption { scope: EncryptionScope::AllNexus, ..SetDataEncryption::default() }
}

fn page_of(specific: u16) -> Primary {
    Primary::SecurityProtocolIn { protocol: 0x20, specific, blocks: false, allocation_length: 1024 }
}

fn out(host: &mut Host, bytes: &[u8]) -> Result<(), Sense> {
    let command = Primary::SecurityProtocolOut {
        protocol: 0x20,
        specific: page::SET_DATA_ENCRYPTION,
        blocks: false,
        length: bytes.len() as u32,
    };
    let end = host.send(&command.into(), Data::Out(bytes));
    if end.status == Status::Good { Ok(()) } else { Err(Sense::decode(&end.sense).unwrap()) }
}

fn encrypt(host: &mut Host, list: &SetDataEncryption) {
    out(host, &list.encode()).unwrap();
}

fn status(host: &mut Host) -> EncryptionStatus {
    EncryptionStatus::decode(&host.ask(page_of(page::STATUS), 1024)).unwrap()
}

fn next_block(host: &mut Host) -> NextBlockStatus {
    NextBlockStatus::decode(&host.ask(page_of(page::NEXT_BLOCK), 1024)).unwrap()
}

fn failed(read: Result<Vec<u8>, (Sense, Vec<u8>)>) -> (u8, u8, u8) {
    let (sense, data) = read.unwrap_err();
    assert!(data.is_empty(), "nothing is given");
    code(&sense)
}

fn rewind(host: &mut Host) {
    host.go(&Stream::Rewind { immediate: false }.into(), Data::None);
}

/// Whether these bytes stand anywhere in a partition's file of the cartridge.
fn stands_in_clear(bench: &Bench, bytes: &[u8]) -> bool {
    let directory = bench.directory.path().join("cartridges").join(VID);
    ["partition-a.rec", "partition-b.rec"].iter().any(|file| {
        let content = std::fs::read(directory.join(file)).unwrap();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}

#[test]
fn a_drive_says_what_it_can() {
    let bench = Bench::new();
    let mut host = bench.host(DRIVE);
    let protocols =
        Primary::SecurityProtocolIn { protocol: 0, specific: 0, blocks: false, allocation_length: 1024 };
    assert_eq!(ProtocolList::decode(&host.ask(protocols, 1024)).unwrap().0, [0x00, 0x20]);
    let pages = EncryptionPages::decode(&host.ask(page_of(page::IN_SUPPORT), 1024)).unwrap();
    assert_eq!(pages.pages, [0, 1, 0x10, 0x11, 0x12, 0x20, 0x21]);
    let pages = EncryptionPages::decode(&host.ask(page_of(page::OUT_SUPPORT), 1024)).unwrap();
    assert_eq!((pages.out, pages.pages), (true, vec![0x10]));
    assert_eq!(host.ask(page_of(page::KEY_FORMATS), 1024), KeyFormats(vec![0]).encode());
    let can = EncryptionManagement::decode_page(&host.ask(page_of(page::MANAGEMENT_CAPABILITIES), 99));
    assert!(can.is_ok_and(|can| can.lock && can.clear_on_demount && can.all_nexus && can.local));

    for is_loaded in [false, true] {
        let mut host = if is_loaded { bench.loaded() } else { bench.host(DRIVE) };
        let found = EncryptionCapabilities::decode(&host.ask(page_of(page::CAPABILITIES), 1024)).unwrap();
        let [algorithm] = &found.algorithms[..] else { panic!("{found:?}") };
        assert_eq!((algorithm.algorithm, algorithm.key_size), (EncryptionAlgorithm::AES_256_GCM, 32));
        assert_eq!((algorithm.unauthenticated_max, algorithm.authenticated_max), (32, 12));
        assert!(algorithm.authenticates && algorithm.distinguishes_blocks);
        assert!(algorithm.encrypts > 0 && algorithm.decrypts > 0);
        assert_eq!(algorithm.usable_with_volume, is_loaded);
    }
    let mut host = bench.host(DRIVE);
    // Less is given if less is asked for; other pages and protocols are not there, and none for the changer.
    let short =
        Primary::SecurityProtocolIn { protocol: 0x20, specific: 0, blocks: false, allocation_length: 3 };
    assert_eq!(host.ask(short, 3), [0, 0, 0]);
    let no = |protocol, specific, blocks| {
        Command::from(Primary::SecurityProtocolIn { protocol, specific, blocks, allocation_length: 64 })
    };
    for (command, expected) in [
        (no(0x20, 0x0030, false), (5, 0x24, 0)),
        (no(0x20, 0x0010, true), (5, 0x24, 0)),
        (no(0x21, 0, false), (5, 0x24, 0)),
        (no(0x00, 1, false), (5, 0x24, 0)),
    ] {
        assert_eq!(code(&host.fails(&command, Data::In(&mut [0; 64]))), expected, "{command:?}");
    }
    let mut changer = bench.host(CHANGER);
    assert_eq!(code(&changer.fails(&protocols.into(), Data::In(&mut [0; 64]))), (5, 0x20, 0));
}

/// Blocks, the sense data of those that cannot be given, and what stands on the cartridge.
#[test]
fn blocks_are_encrypted_on_the_cartridge() {
    let bench = Bench::new();
    let mut host = bench.loaded();
    let (plain, secret) = (pattern(1, 600), pattern(2, 5000));
    host.write(&plain);
    encrypt(&mut host, &set(7));
    host.write(&secret);
    host.marks(1);
    host.write(b"with another key");
    encrypt(&mut host, &set(8));
    host.write(b"the last");
    host.marks(0);

    // With key 8: plain blocks and those of key 8.
    rewind(&mut host);
    let found = next_block(&mut host);
    assert_eq!((found.object, found.encryption, found.associated.len()), (0, NextBlock::Plain, 0));
    assert_eq!(host.read(600).unwrap(), plain);
    let found = next_block(&mut host);
    assert_eq!((found.object, found.encryption, found.algorithm), (1, NextBlock::OtherKey, 1));
    assert_eq!(found.associated, [kad(KadType::Unauthenticated, b"k\x07")], "which key it needs");
    assert_eq!(failed(host.read(5000)), (7, 0x74, 0x03));
    assert_eq!(host.place().1, 1, "the tape stands before it");
    assert_eq!(failed(host.read(100)), (7, 0x74, 0x03), "whatever was asked for");
    host.space(scsi::command::SpaceCode::Blocks, 1).unwrap();
    assert_eq!(next_block(&mut host).encryption, NextBlock::NotABlock);
    host.locate(0, 4);
    assert_eq!(next_block(&mut host).encryption, NextBlock::Decryptable);
    assert_eq!(host.read(8).unwrap(), b"the last");
    assert_eq!(next_block(&mut host).encryption, NextBlock::NotABlock, "the end of data");

    // With key 7, of another length than asked for.
    encrypt(&mut host, &set(7));
    host.locate(0, 1);
    let (sense, data) = host.read(6000).unwrap_err();
    assert_eq!((sense.incorrect_length, sense.residual(), data), (true, Some(1000), secret.clone()));
    host.locate(0, 1);
    let (sense, data) = host.read(1000).unwrap_err();
    assert_eq!((sense.incorrect_length, data.len()), (true, 1000));
    assert!(secret.starts_with(&data));

    // Decryption that takes encrypted blocks only; and none.
    encrypt(&mut host, &SetDataEncryption { decryption: DecryptionMode::Decrypt, ..set(7) });
    rewind(&mut host);
    assert_eq!(failed(host.read(600)), (7, 0x74, 0x02));
    encrypt(&mut host, &off());
    assert_eq!(host.read(600).unwrap(), plain);
    assert_eq!(failed(host.read(5000)), (7, 0x74, 0x01));
    assert_eq!(next_block(&mut host).encryption, NextBlock::OtherKey);
    host.go(&unload(), Data::None);

    assert!(stands_in_clear(&bench, &plain[..32]));
    assert!(!stands_in_clear(&bench, &secret[..32]) && !stands_in_clear(&bench, b"the last"));
    assert!(!stands_in_clear(&bench, &[7; 32]), "nor does the key");
    // The checksums of the cartridge are those of what stands there.
    let directory = bench.directory.path().join("cartridges").join(VID);
    let mut kinds = Vec::new();
    CartridgeReader::open(&directory)
        .unwrap()
        .visit(|record| {
            assert_eq!(record.check, library::RecordCheck::Good);
            kinds.push((record.kind, record.length.0));
            true
        })
        .unwrap();
    use library::RecordKind::{Encrypted, FileMark};
    let plain = (library::RecordKind::Data, 600);
    assert_eq!(kinds, [plain, (Encrypted, 5000), (FileMark, 0), (Encrypted, 16), (Encrypted, 8)]);
}

/// A damaged encrypted block is damaged, not one of another key.
#[test]
fn damage_is_not_taken_for_another_key() {
    let bench = Bench::new();
    let mut host = bench.loaded();
    encrypt(&mut host, &set(7));
    host.write(&pattern(3, 4000));
    host.marks(0);
    host.go(&unload(), Data::None);
    let path = bench.directory.path().join("cartridges").join(VID).join("partition-a.rec");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 1000;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    host.go(&load(), Data::None);
    assert_eq!(failed(host.read(4000)), (3, 0x11, 0));
    assert_eq!(next_block(&mut host).encryption, NextBlock::NotNow);
}

#[test]
fn keys_go_with_the_cartridge_the_reset_and_the_session() {
    let bench = Bench::new();
    let mut host = bench.loaded();
    let encryption = |host: &mut Host| status(host).encryption;
    // Over an unload it stays, unless CKOD is set.
    for (clear_on_demount, after) in [(false, EncryptionMode::Encrypt), (true, EncryptionMode::Disable)] {
        encrypt(&mut host, &SetDataEncryption { clear_on_demount, ..set(7) });
        host.go(&unload(), Data::None);
        host.go(&load(), Data::None);
        assert_eq!(encryption(&mut host), after);
        host.write(if clear_on_demount { b"no key is left here" } else { b"the key is still here" });
        host.marks(0);
    }
    assert!(stands_in_clear(&bench, b"no key is left here"));
    assert!(!stands_in_clear(&bench, b"the key is still here"));
    // CKOD needs a cartridge.
    host.go(&unload(), Data::None);
    let list = SetDataEncryption { clear_on_demount: true, ..set(7) };
    assert_eq!(code(&out(&mut host, &list.encode()).unwrap_err()), (5, 0x26, 0));
    encrypt(&mut host, &set(7));
    host.go(&load(), Data::None);
    assert_eq!(encryption(&mut host), EncryptionMode::Encrypt);
    #[cfg(feature = "faults")]
    {
        let mut other = bench.host_of(DRIVE, OTHER);
        bench.target.faults().plan(DRIVE, 0x00, vtl::Fault::ResetAfter);
        let ready = Command::from(Primary::TestUnitReady).encode().unwrap();
        let patience = std::time::Duration::from_millis(20);
        let _ = scsi::Transport::execute(&mut other.0, &ready, Data::None, patience);
        assert_eq!(code(&host.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x29, 0));
        assert_eq!(encryption(&mut host), EncryptionMode::Disable, "no key outlives a reset");
    }
    // What is a session's own goes with it.
    encrypt(&mut host, &SetDataEncryption { scope: EncryptionScope::Local, ..set(7) });
    assert_eq!(encryption(&mut host), EncryptionMode::Encrypt);
    drop(host);
    assert_eq!(encryption(&mut bench.host(DRIVE)), EncryptionMode::Disable);
}

#[test]
fn scopes_say_whose_parameters_count() {
    let bench = Bench::new();
    let mut host = bench.loaded();
    let mut other = bench.host_of(DRIVE, OTHER);
    let scopes = |host: &mut Host| {
        let status = status(host);
        (status.nexus_scope, status.key_scope, status.encryption)
    };
    use EncryptionMode::{Disable, Encrypt};
    use EncryptionScope::{AllNexus, Local, Public};
    assert_eq!(scopes(&mut host), (Public, Public, Disable));
    encrypt(&mut host, &set(7));
    assert_eq!(scopes(&mut host), (AllNexus, AllNexus, Encrypt));
    // The other hears of it, and has them too.
    assert_eq!(code(&other.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x2a, 0x11));
    assert_eq!(scopes(&mut other), (Public, AllNexus, Encrypt));
    other.write(b"by the other");
    // Its own count for it alone.
    encrypt(&mut other, &SetDataEncryption { scope: Local, ..set(8) });
    assert_eq!(
        (scopes(&mut other), scopes(&mut host)),
        ((Local, Local, Encrypt), (AllNexus, AllNexus, Encrypt))
    );
    rewind(&mut host);
    assert_eq!(failed(other.read(12)), (7, 0x74, 0x03));
    assert_eq!(host.read(12).unwrap(), b"by the other");
    // Public gives up what is its own, and nothing else is looked at.
    encrypt(&mut other, &SetDataEncryption { scope: Public, algorithm: 9, key_format: 9, ..off() });
    assert_eq!(scopes(&mut other), (Public, AllNexus, Encrypt));
    encrypt(&mut host, &off());
    assert_eq!(scopes(&mut host), (Public, Public, Disable));
    assert_eq!(code(&other.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x2a, 0x11));
    assert_eq!(scopes(&mut other), (Public, Public, Disable));
}

/// Who has locked to a key neither writes nor reads with another, or without.
#[test]
fn a_lock_holds_to_the_key() {
    let bench = Bench::new();
    let mut host = bench.loaded();
    let mut other = bench.host_of(DRIVE, OTHER);
    encrypt(&mut host, &SetDataEncryption { lock: true, ..set(7) });
    host.write(b"one");
    assert_eq!(code(&other.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x2a, 0x11));
    encrypt(&mut other, &off());
    assert_eq!(code(&host.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x2a, 0x11));
    let write = Stream::Write6 { fixed: false, length: 3 }.into();
    assert_eq!(code(&host.fails(&write, Data::Out(b"two"))), (7, 0x2a, 0x13));
    assert_eq!(failed(host.read(3)), (7, 0x2a, 0x13));
    assert_eq!(host.place().1, 1, "nothing was written");
    encrypt(&mut host, &set(7));
    host.write(b"two");
    assert_eq!(code(&other.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x2a, 0x11));
    encrypt(&mut other, &off());
    assert_eq!(code(&host.fails(&Primary::TestUnitReady.into(), Data::None)), (6, 0x2a, 0x11));
    host.write(b"in clear: the lock is gone");
}

/// CKORL and CKORP: keys that go with a persistent reservation.
#[test]
fn keys_go_with_reservations_if_that_is_asked_for() {
    let persist = |host: &mut Host, service, key: u64, action: u64| {
        let list =
            ReserveOut { key: key.into(), action_key: action.into(), ..ReserveOut::default() }.encode();
        let kind = ReservationType::ExclusiveAccess.byte();
        let command = Primary::PersistentReserveOut { service, scope: 0, kind, length: list.len() as u32 };
        host.go(&command.into(), Data::Out(&list));
    };
    for (preempted, on_loss, on_preempt, is_kept) in [
        (false, true, false, false),
        (false, false, true, true),
        (true, true, false, false),
        (true, false, true, false),
        (true, false, false, true),
    ] {
        let bench = Bench::new();
        let mut host = bench.loaded();
        let mut other = bench.host_of(DRIVE, OTHER);
        persist(&mut host, PersistentOut::RegisterAndIgnoreKey, 0, 1);
        persist(&mut host, PersistentOut::Reserve, 1, 0);
        let list =
            SetDataEncryption { clear_on_reservation_loss: on_loss, clear_on_preempt: on_preempt, ..set(7) };
        encrypt(&mut host, &list);
        let _ = other.send(&Primary::TestUnitReady.into(), Data::None);
        // A registration takes nothing away.
        persist(&mut other, PersistentOut::RegisterAndIgnoreKey, 0, 2);
        assert_eq!(status(&mut host).encryption, EncryptionMode::Encrypt);
        if preempted {
            persist(&mut other, PersistentOut::Preempt, 2, 1);
            persist(&mut other, PersistentOut::Release, 2, 0);
        } else {
            persist(&mut host, PersistentOut::Release, 1, 0);
        }
        let now = status(&mut other).encryption == EncryptionMode::Encrypt;
        assert_eq!(now, is_kept, "{preempted} {on_loss} {on_preempt}");
    }
}

/// What cannot be is refused by its byte, and changes nothing.
#[test]
fn parameters_that_cannot_be_are_refused() {
    let bench = Bench::new();
    let mut host = bench.loaded();
    encrypt(&mut host, &set(7));
    let before = status(&mut host);
    let long = [kad(KadType::Unauthenticated, &[0; 33])].to_vec();
    let nonce = [kad(KadType::Nonce, &[0; 12])].to_vec();
    let twice = vec![kad(KadType::Authenticated, b"a"); 2];
    let with = |change: &dyn Fn(&mut SetDataEncryption)| {
        let mut list = set(8);
        change(&mut list);
        list.encode()
    };
    let lists: [(u16, Vec<u8>); 14] = [
        (4, with(&|list| list.scope = EncryptionScope::Other(5))),
        (5, with(&|list| list.external_check = 2)),
        (5, with(&|list| list.raw_control = 1)),
        (5, with(&|list| list.supplemental = true)),
        (6, with(&|list| list.encryption = EncryptionMode::External)),
        (7, with(&|list| list.decryption = DecryptionMode::Raw)),
        (8, with(&|list| list.algorithm = 0)),
        (9, with(&|list| list.key_format = 2)),
        (10, with(&|list| list.associated_format = 3)),
        (18, with(&|list| list.key = Key(vec![1; 31]))),
        (18, with(&|list| list.key = Key(vec![1; 33]))),
        (52, with(&|list| list.associated = long.clone())),
        (52, with(&|list| list.associated = nonce.clone())),
        (52, with(&|list| list.associated = twice.clone())),
    ];
    for (byte, list) in lists {
        let sense = out(&mut host, &list).unwrap_err();
        assert_eq!(code(&sense), (5, 0x26, 0), "{list:x?}");
        let pointer = scsi::sense::FieldPointer { in_command: false, byte, bit: None };
        let expected = Sense::invalid_field(pointer);
        assert_eq!(sense.key_specific, expected.key_specific, "{list:x?}");
    }
    let whole = set(8).encode();
    for length in 0..whole.len() {
        assert_eq!(code(&out(&mut host, &whole[..length]).unwrap_err()), (5, 0x1a, 0), "{length} bytes");
    }
    let other = Primary::SecurityProtocolOut { protocol: 0x20, specific: 0x11, blocks: false, length: 4 };
    assert_eq!(code(&host.fails(&other.into(), Data::Out(&[0, 0x11, 0, 0]))), (5, 0x24, 0));
    assert_eq!(status(&mut host), before);
}

/// Kist's own driver on this target: through both, ciphertext stands on the cartridge, and the key comes back
/// after a reset without a block in clear.
#[test]
fn our_driver_encrypts_through_the_target() {
    for way in [Way::Local, Way::Iscsi] {
        let mut rig = ScsiRig::new(way, ProtectionWish::Required);
        let identity = KeyIdentity::new(b"pool-2026", b"").unwrap();
        let key = TapeEncryption::of(EncryptionKey::new([0x5c; 32]), identity.clone());
        let secret = pattern(4, 3000);
        let begin = base::TapePosition { partition: base::Partition::Index, block: base::BlockAddress(0) };
        let drive = rig.drive();
        drive.set_encryption(Some(&key)).unwrap();
        drive.write_block(&secret).unwrap();
        drive.write_filemarks(1).unwrap();
        #[cfg(feature = "faults")]
        for operation in [0x0a, 0x34, 0xa2] {
            rig.bench().target.faults().plan(
                DRIVE,
                operation,
                vtl::Fault::Sense(scsi::Sense::new(scsi::SenseKey::UnitAttention, 0x29, 0x07)),
            );
            rig.drive().write_block(&secret).unwrap();
        }
        let drive = rig.drive();
        drive.write_filemarks(1).unwrap();
        drive.locate(begin).unwrap();
        let found = drive.block_encryption().unwrap();
        assert_eq!(found, BlockEncryption::Encrypted { identity: identity.clone(), is_readable: true });
        let mut buffer = vec![0; 4096];
        drive.read_block(&mut buffer).unwrap();
        assert_eq!(&buffer[..3000], secret);

        rig.reload();
        let drive = rig.drive();
        assert!(matches!(drive.read_block(&mut buffer), Err(TapeError::KeyMissing { .. })));
        let found = drive.block_encryption().unwrap();
        assert_eq!(found, BlockEncryption::Encrypted { identity, is_readable: false });
        let wrong = TapeEncryption { key: EncryptionKey::new([1; 32]), ..key.clone() };
        drive.set_encryption(Some(&wrong)).unwrap();
        assert!(matches!(drive.read_block(&mut buffer), Err(TapeError::WrongKey { .. })));
        drive.set_encryption(Some(&key)).unwrap();
        drive.read_block(&mut buffer).unwrap();
        assert_eq!(&buffer[..3000], secret);
        assert!(!stands_in_clear(rig.bench(), &secret[..32]));
    }
}
