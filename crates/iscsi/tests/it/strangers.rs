//! Peers that share no code with ours: Debian's `tgt` as target, the tools of `libiscsi` as initiators.

use std::process::{Command, Output};

use iscsi::initiator::{Initiator, InitiatorConfig, discover};
use iscsi::login::{Access, Account, DigestWish, Parameters};
use scsi::{Data, Status, Transport};

use crate::stranger::{Tgtd, program, run};
use crate::unit::*;

const TAPE: &str = "iqn.2026-01.org.kist:tape";

/// A tgtd with a tape drive.
struct Tgt(Tgtd);

impl Tgt {
    fn start() -> Tgt {
        let tgtd = Tgtd::start(TAPE);
        tgtd.make_tape("tape", "KST001L6", "64");
        for (key, value) in
            [("HeaderDigest", "CRC32C,None"), ("DataDigest", "CRC32C,None"), ("InitialR2T", "No")]
        {
            run(&mut tgtd.admin("update", "target", &["-n", key, "-v", value]));
        }
        tgtd.make_drive("1", "tape");
        tgtd.open();
        Tgt(tgtd)
    }

    fn initiator(&self, change: impl FnOnce(&mut InitiatorConfig)) -> Initiator {
        let mut config = settings(&self.0.portal, TAPE, 1);
        change(&mut config);
        Initiator::new(config).unwrap()
    }
}

/// Each new session of tgt begins with a unit attention.
fn swallow_attention(initiator: &mut Initiator) {
    let first = initiator.execute(&ready(), Data::None, PATIENCE).unwrap();
    assert_eq!((first.status, first.sense[2] & 0xf, first.sense[12]), (Status::CheckCondition, 6, 0x29));
    assert_eq!(initiator.execute(&ready(), Data::None, PATIENCE).unwrap(), good(0));
}

#[test]
fn a_tape_of_tgt_is_written_and_read() {
    let tgt = Tgt::start();
    let found = discover(&settings(&tgt.0.portal, TAPE, 1)).unwrap();
    assert_eq!(found.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), [TAPE]);
    assert!(found[0].addresses[0].starts_with(&tgt.0.portal), "{found:?}");

    use DigestWish::{Never, Require};
    for (round, digest) in
        [(Never, Never), (Require, Never), (Never, Require), (Require, Require)].into_iter().enumerate()
    {
        for (initial_r2t, immediate_data) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut tape = tgt.initiator(|config| {
                (config.parameters.header_digest, config.parameters.data_digest) = digest;
                (config.parameters.initial_r2t, config.parameters.immediate_data) =
                    (initial_r2t, immediate_data);
                if round == 3 {
                    config.parameters = Parameters {
                        segment_max: 4096,
                        burst_max: 16384,
                        first_burst_max: 8192,
                        ..config.parameters.clone()
                    };
                }
            });
            swallow_attention(&mut tape);
            let mut into = [0; 96];
            let inquiry = tape.execute(&cdb(&[0x12, 0, 0, 0, 96, 0]), Data::In(&mut into), PATIENCE).unwrap();
            assert_eq!((inquiry.status, into[0] & 0x1f), (Status::Good, 1), "a tape");
            assert!(inquiry.transferred >= 36);

            let rewind = cdb(&[0x01, 0, 0, 0, 0, 0]);
            assert_eq!(tape.execute(&rewind, Data::None, PATIENCE).unwrap(), good(0));
            let lengths = [512, 1000, 4096, 8193, 65_536, 100_001, 262_144, 524_288];
            for (seed, length) in lengths.into_iter().enumerate() {
                let bytes = pattern(length, seed as u64 + 1);
                let write = record(0x0a, length, false);
                let done = tape.execute(&write, Data::Out(&bytes), PATIENCE).unwrap();
                assert_eq!(done, good(length), "{length} bytes, {digest:?}, {initial_r2t}, {immediate_data}");
            }
            assert_eq!(tape.execute(&cdb(&[0x10, 0, 0, 0, 1, 0]), Data::None, PATIENCE).unwrap(), good(0));
            assert_eq!(tape.execute(&rewind, Data::None, PATIENCE).unwrap(), good(0));
            for (seed, length) in lengths.into_iter().enumerate() {
                let mut into = vec![0; length];
                let read = tape.execute(&record(0x08, length, false), Data::In(&mut into), PATIENCE).unwrap();
                assert_eq!(read, good(length));
                assert!(into == pattern(length, seed as u64 + 1), "{length} other bytes");
            }
            // A file mark ends the reading.
            let mut into = [0; 512];
            let mark = tape.execute(&record(0x08, 512, false), Data::In(&mut into), PATIENCE).unwrap();
            assert_eq!((mark.status, mark.sense[2]), (Status::CheckCondition, 0x80), "{mark:?}");
            // A record that is shorter than what was asked for.
            assert_eq!(tape.execute(&rewind, Data::None, PATIENCE).unwrap(), good(0));
            let mut into = [0; 2000];
            let short = tape.execute(&record(0x08, 2000, false), Data::In(&mut into), PATIENCE).unwrap();
            assert_eq!((short.status, short.sense[2]), (Status::CheckCondition, 0x20), "{short:?}");
            assert!(into[..512] == pattern(512, 1));
            tape.keep_alive().unwrap();
            assert_eq!(tape.statistics().logins, 1);
        }
    }
}

#[test]
fn tgt_asks_for_a_proof_and_gives_one() {
    let tgt = Tgt::start();
    for (name, secret, direction) in
        [("user", "secret of user", None), ("drive", "secret of drive", Some("--outgoing"))]
    {
        run(tgt.0.tgtadm().args(["--op", "new", "--mode", "account", "--user", name, "--password", secret]));
        let mut bind = tgt.0.tgtadm();
        bind.args(["--op", "bind", "--mode", "account", "--tid", "1", "--user", name]);
        run(bind.args(direction));
    }
    let account = |name: &str, secret: &str| Some(Account::new(name, secret).unwrap());
    let (user, drive) = (account("user", "secret of user"), account("drive", "secret of drive"));
    for theirs in [None, drive] {
        let mut tape =
            tgt.initiator(|config| (config.account, config.target_account) = (user.clone(), theirs));
        swallow_attention(&mut tape);
    }
    let refusals = [
        (None, None),
        (account("user", "another secret"), None),
        (user.clone(), account("drive", "another secret")),
    ];
    for (ours, theirs) in refusals {
        let mut tape = tgt.initiator(|config| (config.account, config.target_account) = (ours, theirs));
        let error = tape.execute(&ready(), Data::None, PATIENCE).unwrap_err();
        assert!(!error.may_be_done, "{error}");
    }
}

#[test]
fn tgt_resets_and_goes_away() {
    let mut tgt = Tgt::start();
    let mut tape = tgt.initiator(|_| {});
    swallow_attention(&mut tape);
    tape.reset_unit().unwrap();
    swallow_attention(&mut tape);
    tape.log_out();
    swallow_attention(&mut tape);
    tgt.0.kill();
    let error = tape.execute(&ready(), Data::None, PATIENCE).unwrap_err();
    assert!(!error.may_be_done, "the loss is seen before the command leaves: {error}");
}

fn tool(name: &str) -> Command {
    program(name, "libiscsi-bin")
}

#[test]
fn tools_of_libiscsi_use_our_target() {
    let (_ram, server) = serve(Ram::attending(), |_| {});
    let portal = format!("iscsi://{}", server.address());
    let unit = format!("{portal}/{TARGET}/0");
    let said = |output: Output| String::from_utf8(output.stdout).unwrap();

    let list = said(run(tool("iscsi-ls").args(["-s", &portal])));
    assert!(list.contains(TARGET) && list.contains("Lun:0"), "{list}");
    let inquiry = said(run(tool("iscsi-inq").arg(&unit)));
    assert!(inquiry.contains("RAM DISK"), "{inquiry}");
    let serial = said(run(tool("iscsi-inq").args(["-e", "1", "-c", "128", &unit])));
    assert!(serial.contains("KIST0001"), "{serial}");
    let capacity = said(run(tool("iscsi-readcapacity16").args(["-s", &unit])));
    assert_eq!(capacity.trim(), (BLOCK * BLOCKS).to_string());
}

#[test]
fn tools_of_libiscsi_prove_who_they_are_and_check_headers() {
    let access = Access::Chap { accounts: vec![Account::new("user", "secret of user").unwrap()], own: None };
    let (_ram, server) = serve(Ram::attending(), |config| {
        config.access = access;
        config.parameters.header_digest = DigestWish::Prefer;
    });
    let unit =
        |secret: &str, more: &str| format!("iscsi://user%{secret}@{}/{TARGET}/0{more}", server.address());
    for more in ["", "?header_digest=crc32c"] {
        let output = tool("iscsi-inq").arg(unit("secret of user", more)).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("RAM DISK"), "{more}: {output:?}");
    }
    let output = tool("iscsi-inq").arg(unit("another secret", "")).output().unwrap();
    assert!(!output.status.success());
}

/// Tests of libiscsi's own suite that look at the transport. Not iSCSIdatasn: after it has seen its first
/// wrong number refused it sends the last of its writes through a new session, with right ones, and wonders
/// that it is taken.
#[test]
fn our_target_passes_libiscsis_tests_of_the_transport() {
    let (_ram, server) = serve(Ram::attending(), |_| {});
    let unit = format!("iscsi://{}/{TARGET}/0", server.address());
    let suites = [
        "iSCSI.iSCSIcmdsn.*",
        "iSCSI.iSCSIResiduals.*",
        "iSCSI.iSCSITMF.*",
        "SCSI.TestUnitReady.*",
        "SCSI.Read10.Simple",
        "SCSI.Read16.Simple",
        "SCSI.Write10.Simple",
        "SCSI.Write16.Simple",
    ];
    for suite in suites {
        let output = tool("iscsi-test-cu").args(["-d", "-n", "-t", suite, &unit]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{suite}: {}\n{out}{err}", output.status);
        // The table at the end: how many ran, passed and failed.
        let asserts = out.lines().find(|line| line.trim_start().starts_with("asserts")).unwrap_or_default();
        let counts: Vec<u32> = asserts.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [total, ran, passed, failed] = counts[..] else { panic!("{suite}: {out}{err}") };
        assert!(total > 0 && ran == passed && failed == 0, "{suite}: {out}{err}");
    }
}
