//! Encryption by a SCSI drive: no block that is to be encrypted is written otherwise, whatever comes between.

use library::scsi::ScsiDriveOptions;
use library::{
    BlockEncryption, Decryption, EncryptionKey, KeyIdentity, ReadBlock, TapeEncryption, TapeError,
};
use scsi::security::{EncryptionKey as Key, EncryptionMode, SetDataEncryption};
use scsi::{Sense, SenseKey};

use crate::common::{data, vid};
use crate::scsi_drive::{
    Bench, MARKS, MODE_SELECT, OPS, POSITION, READY, WRITE, objects, options, reserving, run,
};
use crate::scsi_model::{Object, Quirks};
use crate::scsi_model_keys::KeyQuirks;

const SECURITY_IN: u8 = 0xa2;
const SECURITY_OUT: u8 = 0xb5;

pub fn key(byte: u8) -> TapeEncryption {
    let identity = KeyIdentity::new(format!("pool-{byte}").as_bytes(), b"").unwrap();
    TapeEncryption::of(EncryptionKey::new([byte; 32]), identity)
}

fn quirks(keys: KeyQuirks) -> Quirks {
    Quirks { keys, ..Quirks::default() }
}

/// A drive that encrypts with key 7 in the data partition.
fn encrypting(quirks: Quirks, options: ScsiDriveOptions) -> Bench {
    let mut bench = Bench::begun(quirks, options);
    bench.drive.set_encryption(Some(&key(7))).unwrap();
    bench
}

/// All records of the data partition are encrypted with key 7.
fn check(bench: &Bench, name: &str) {
    for (block, object) in bench.model.lock().partitions[1].iter().enumerate() {
        match object {
            Object::Mark => {}
            Object::Record(_) => panic!("{name}: block {block} is not encrypted"),
            Object::Encrypted(sealed) => {
                assert_eq!(sealed.parameters.key, Key(vec![7; 32]), "{name}: block {block} has another key");
            }
        }
    }
}

#[test]
fn blocks_are_encrypted_with_the_key_and_say_which_it_was() {
    for fixed in [false, true] {
        let mut bench = encrypting(quirks(KeyQuirks { fixed, ..KeyQuirks::default() }), reserving());
        assert_eq!(run(&mut bench).0, OPS.len());
        check(&bench, "written");
        assert_eq!(bench.model.lock().content(1), objects(&OPS));
        let set = bench.model.lock().tape_keys.set.clone();
        assert!(set.lock && set.clear_on_demount && set.encryption == EncryptionMode::Encrypt);
        bench.drive.locate(data(0)).unwrap();
        let identity = KeyIdentity::new(b"pool-7", b"").unwrap();
        let found = bench.drive.block_encryption().unwrap();
        assert_eq!(found, BlockEncryption::Encrypted { identity: identity.clone(), is_readable: true });
        assert_eq!(bench.read().unwrap(), Some(vec![1; 50]));
        bench.drive.locate(data(3)).unwrap();
        assert_eq!(bench.drive.block_encryption().unwrap(), BlockEncryption::NoBlock);

        // The key goes with the cartridge, and nothing is read without it, or with another.
        bench.scsi.unload().unwrap().flushed.unwrap();
        bench.model.lock().loaded = true;
        assert_eq!(bench.model.lock().tape_keys.set.key, Key(Vec::new()));
        bench.scsi.load(vid("KT0001")).unwrap();
        bench.drive.locate(data(1)).unwrap();
        let found = bench.drive.block_encryption().unwrap();
        assert_eq!(found, BlockEncryption::Encrypted { identity, is_readable: false });
        assert!(matches!(bench.read(), Err(TapeError::KeyMissing { at, .. }) if at == data(1)));
        bench.drive.set_encryption(Some(&key(8))).unwrap();
        assert!(matches!(bench.read(), Err(TapeError::WrongKey { at, .. }) if at == data(1)));
        bench.drive.set_encryption(Some(&key(7))).unwrap();
        assert_eq!(bench.read().unwrap(), Some(vec![2; 50]));
        // Plain blocks are given as they are, or are an error.
        bench.drive.set_encryption(None).unwrap();
        bench.drive.locate(data(0)).unwrap();
        bench.drive.write_block(b"in clear").unwrap();
        for (decryption, is_given) in [(Decryption::IfEncrypted, true), (Decryption::Required, false)] {
            bench.drive.set_encryption(Some(&TapeEncryption { decryption, ..key(7) })).unwrap();
            bench.drive.locate(data(0)).unwrap();
            assert_eq!(bench.drive.block_encryption().unwrap(), BlockEncryption::Plain);
            match bench.read() {
                Ok(read) => assert!(is_given && read == Some(b"in clear".to_vec())),
                Err(error) => {
                    assert!(!is_given && matches!(error, TapeError::NotEncrypted { .. }), "{error}");
                }
            }
        }
    }
}

/// A fault at each command, also while the key is set: what stands on the tape is encrypted with the key.
#[test]
fn no_fault_lets_a_block_out_in_clear() {
    let (mut fired, mut refused) = (0, 0);
    for intruder in [false, true] {
        for options in [options(), ScsiDriveOptions { trusts_reservation: true, ..reserving() }] {
            for operation in [WRITE, MARKS, POSITION, READY, MODE_SELECT, SECURITY_IN, SECURITY_OUT] {
                for skip in 0..6 {
                    for fault in crate::scsi_faults::faults() {
                        let quirks = quirks(KeyQuirks { intruder, ..KeyQuirks::default() });
                        let mut bench = Bench::begun(quirks, options.clone());
                        bench.model.lock().plan_after(operation, skip, fault.clone());
                        let name = format!("{operation:02x} after {skip}: {fault:?}, {intruder}");
                        let set = bench.drive.set_encryption(Some(&key(7)));
                        let done = if set.is_ok() { run(&mut bench).0 } else { 0 };
                        // Settings that failed are not forgotten: who writes all the same writes nothing.
                        let _ = bench.drive.write_block(b"one more");
                        check(&bench, &name);
                        fired += bench.model.lock().fired;
                        refused += usize::from(done < OPS.len());
                    }
                }
            }
        }
    }
    assert!(fired > 800 && refused > 200, "{fired} faults, {refused} refused");
}

/// A drive that was reset has no key: it gets it again before the next block. Also if its counter of keys
/// stands where it stood, since another host has set a key of its own in the same modes.
#[test]
fn a_reset_costs_no_encryption() {
    for intruder in [false, true] {
        for options in [options(), reserving(), ScsiDriveOptions { trusts_reservation: true, ..reserving() }]
        {
            let mut bench = encrypting(quirks(KeyQuirks { intruder, ..KeyQuirks::default() }), options);
            bench.drive.write_block(b"one").unwrap();
            bench.drive.write_filemarks(0).unwrap();
            for _ in 0..3 {
                bench.model.lock().reset(true);
                bench.drive.write_block(b"more").unwrap();
            }
            bench.drive.write_filemarks(0).unwrap();
            check(&bench, "after resets");
            assert_eq!(bench.model.lock().content(1).len(), 4);
        }
    }
}

/// A drive that says nothing of its reset, as behind a bridge that keeps it to itself: the next batch asks.
#[test]
fn a_reset_of_which_nobody_hears_is_found_before_the_next_batch() {
    for options in [options(), ScsiDriveOptions { trusts_reservation: true, ..reserving() }] {
        let mut bench = encrypting(Quirks::default(), options);
        for _ in 0..3 {
            bench.drive.write_block(b"one").unwrap();
            bench.drive.write_filemarks(0).unwrap();
            let mut model = bench.model.lock();
            let holder = model.holder;
            model.reset(true);
            model.attentions.clear();
            model.holder = holder;
            // What stands in the mode pages is found by nobody: blocks go without their checksums.
            model.protection.method = scsi::mode::ProtectionMethod::Crc32c;
            (model.protection.on_write, model.protection.on_read) = (true, true);
        }
        check(&bench, "after resets of which nobody heard");
        assert_eq!(bench.model.lock().content(1).len(), 3);
    }
}

/// Another host changes the key, and the drive says so, or only refuses the write that was locked to ours.
#[test]
fn a_key_of_another_host_is_taken_out() {
    for told in [true, false] {
        let mut bench = encrypting(Quirks::default(), options());
        bench.drive.write_block(b"one").unwrap();
        {
            let mut model = bench.model.lock();
            model.tape_keys.set.key = Key(vec![9; 32]);
            model.tape_keys.instance += 1;
            if told {
                model.attentions.push(Sense::new(SenseKey::UnitAttention, 0x2a, 0x11));
            }
        }
        bench.drive.write_block(b"two").unwrap();
        bench.drive.write_filemarks(0).unwrap();
        check(&bench, "after another host");
        assert_eq!(bench.model.lock().content(1).len(), 2);
    }
}

/// A key that somebody has left in the drive encrypts nothing of ours; where the library controls keys, and
/// the drive says so or refuses, that is the site's own affair.
#[test]
fn a_key_left_behind_is_taken_out_at_the_load() {
    for (control, refuses, is_cleared) in
        [(0, false, true), (1, false, true), (3, false, false), (0, true, false)]
    {
        let keys = KeyQuirks { control, refuses, ..KeyQuirks::default() };
        let mut bench = Bench::begun(quirks(keys), options());
        bench.scsi.unload().unwrap().flushed.unwrap();
        bench.model.lock().loaded = true;
        let left = SetDataEncryption {
            encryption: EncryptionMode::Encrypt,
            key: Key(vec![9; 32]),
            ..SetDataEncryption::default()
        };
        bench.model.lock().tape_keys.set = left;
        bench.scsi.load(vid("KT0001")).unwrap();
        bench.drive.locate(data(0)).unwrap();
        bench.drive.write_block(b"a label").unwrap();
        let is_plain = matches!(bench.model.lock().partitions[1][0], Object::Record(_));
        assert_eq!(is_plain, is_cleared, "control {control}");
    }
}

/// A drive that answers nonsense is used as before, but for encryption.
#[test]
fn a_status_that_cannot_be_read_costs_encryption_only() {
    let mut bench = Bench::begun(quirks(KeyQuirks { nonsense: true, ..KeyQuirks::default() }), reserving());
    assert_eq!(run(&mut bench).0, OPS.len());
    assert!(bench.drive.set_encryption(Some(&key(7))).is_err());
    assert!(bench.drive.write_block(b"in clear").is_err());
    bench.scsi.unload().unwrap().flushed.unwrap();
}

/// What was our own key must be gone before a block is written in clear.
#[test]
fn a_key_of_ours_that_stays_is_an_error() {
    let mut bench = encrypting(Quirks::default(), options());
    bench.drive.write_block(b"one").unwrap();
    bench.model.lock().quirks.keys.refuses = true;
    assert!(bench.drive.set_encryption(None).is_err());
    let error = bench.drive.write_block(b"a label").unwrap_err();
    assert!(matches!(error, TapeError::EncryptionUnsupported { .. }), "{error}");
    assert_eq!(bench.model.lock().content(1).len(), 1);
}

#[test]
fn what_a_drive_cannot_is_found_out_before_a_block_is_written() {
    let all = KeyQuirks::default();
    let none = Quirks { lacks: vec![SECURITY_IN, SECURITY_OUT], ..Quirks::default() };
    let short = quirks(KeyQuirks { key_size: 16, ..all.clone() });
    for quirks in [quirks(KeyQuirks { offered: false, ..all.clone() }), none, short] {
        let mut bench = Bench::begun(quirks, options());
        let error = bench.drive.set_encryption(Some(&key(7))).unwrap_err();
        assert!(matches!(error, TapeError::EncryptionUnsupported { .. }), "{error}");
        let error = bench.drive.write_block(b"in clear").unwrap_err();
        assert!(matches!(error, TapeError::EncryptionUnsupported { .. }), "{error}");
        bench.drive.set_encryption(None).unwrap();
        assert_eq!(bench.drive.read_block(&mut [0; 10]).unwrap(), ReadBlock::EndOfData);
        bench.drive.write_block(b"in clear").unwrap();
    }
    // Neither LOCK nor CKOD is needed.
    for (lock, clear_on_demount) in [(false, true), (true, false), (false, false)] {
        let keys = KeyQuirks { lock, clear_on_demount, ..all.clone() };
        let mut bench = encrypting(quirks(keys), options());
        assert_eq!(run(&mut bench).0, OPS.len());
        check(&bench, "less bits");
    }
}
