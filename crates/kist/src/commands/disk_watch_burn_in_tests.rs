use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;

use base::{ByteCount, Timestamp};
use drive::BurnInId;

use super::*;

const GIB: u64 = 1 << 30;

fn record(verdict: BurnInVerdict) -> BurnInRecord {
    BurnInRecord {
        id: BurnInId(7),
        verdict,
        is_direct: true,
        is_judged_by_place: true,
        ended: Timestamp(0),
        bytes: QUICK_BURN_IN,
        capacity: ByteCount(4000 * GIB),
        write_rate: ByteCount(1),
        read_rate: ByteCount(1),
        median_max: Duration::ZERO,
        p99_max: Duration::ZERO,
        faults: 3,
        slow_places: 2,
    }
}

/// Burn-ins that end as they are told, and how many were begun.
struct Bench {
    burn_ins: BurnIns,
    begun: Arc<AtomicUsize>,
    end: mpsc::Sender<Option<BurnInVerdict>>,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let (end, told) = mpsc::channel::<Option<BurnInVerdict>>();
        let (begun, told) = (Arc::new(AtomicUsize::new(0)), Mutex::new(told));
        let counts = Arc::clone(&begun);
        let burner = move |directory: &Path, _: BurnInDemand, stop: &AtomicBool, _: &dyn Fn(Far)| {
            counts.fetch_add(1, Ordering::Relaxed);
            let told = told.lock().unwrap();
            let verdict = loop {
                match told.recv_timeout(Duration::from_millis(1)) {
                    Ok(verdict) => break verdict,
                    Err(_) if stop.load(Ordering::Relaxed) => return Err(Failure::internal("stopped")),
                    Err(_) => {}
                }
            };
            let verdict = verdict.ok_or_else(|| Failure::internal("no room for it"))?;
            record(verdict).write(directory).unwrap();
            match verdict {
                BurnInVerdict::Passed => Ok(()),
                _ => Err(Failure::internal("it is bad")),
            }
        };
        let directory = tempfile::tempdir().unwrap();
        Bench { burn_ins: BurnIns::by(Arc::new(burner)), begun, end, directory }
    }

    /// A look that asks for the disk.
    fn look(&mut self) -> Result<(), NotBurntIn> {
        let directory = self.directory.path().to_owned();
        let words = "serial ZL1 in slot 3 of enclosure 5000ccab04001000";
        let newcomer = Newcomer { disk: "naa.1", words, directory: &directory };
        self.burn_ins.begin_look();
        let said = self.burn_ins.passed(newcomer, BurnInDemand::Quick);
        self.burn_ins.end_look();
        said
    }

    fn looks_elsewhere(&mut self, looks: u32) {
        for _ in 0..looks {
            self.burn_ins.begin_look();
            self.burn_ins.end_look();
        }
    }

    fn ends(&self, verdict: Option<BurnInVerdict>) {
        self.end.send(verdict).unwrap();
        assert!(self.burn_ins.wait());
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }
}

#[test]
fn a_disk_is_used_once_it_has_passed_and_not_before() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        assert_eq!(bench.look().unwrap_err().word, "burn-in");
    }
    bench.ends(Some(BurnInVerdict::Passed));
    assert_eq!(bench.look(), Ok(()));
    assert_eq!(bench.begun(), 1);
    // As a watch that was begun anew finds it.
    bench.burn_ins = Bench::new().burn_ins;
    assert_eq!(bench.look(), Ok(()));
}

#[test]
fn a_bad_disk_is_refused_with_slot_serial_and_next_step_also_after_a_restart() {
    for (verdict, why) in [(BurnInVerdict::Slow, "slow in 2 places"), (BurnInVerdict::Faulty, "faulty, 3")] {
        let mut bench = Bench::new();
        let _ = bench.look();
        bench.ends(Some(verdict));
        for _ in 0..2 {
            let said = bench.look().unwrap_err();
            let words = said.text;
            assert_eq!(said.word, "burn-in-bad");
            for part in ["serial ZL1", "slot 3 of enclosure", why, "put another blank disk there"] {
                assert!(words.contains(part), "{words}");
            }
            assert!(words.len() < 256, "the server takes no more: {words}");
            bench.burn_ins = Bench::new().burn_ins;
        }
        assert_eq!(bench.begun(), 1);
    }
}

#[test]
fn one_that_was_ended_in_the_middle_begins_anew() {
    let mut bench = Bench::new();
    let _ = bench.look();
    // Looks that do not ask for it: the lost disk has come back, or the policy was changed. An enclosure may
    // be silent for some.
    bench.looks_elsewhere(UNASKED_LOOKS - 1);
    assert_eq!(bench.look().unwrap_err().word, "burn-in");
    bench.looks_elsewhere(UNASKED_LOOKS);
    bench.burn_ins.wait();
    assert_eq!(BurnInRecord::read(bench.directory.path()).unwrap(), None);
    let _ = bench.look();
    bench.ends(Some(BurnInVerdict::Passed));
    assert_eq!(bench.look(), Ok(()));
    assert_eq!(bench.begun(), 2);
}

#[test]
fn what_cannot_be_burnt_in_is_tried_once_as_long_as_the_disk_stays() {
    let mut bench = Bench::new();
    let _ = bench.look();
    bench.ends(None);
    for _ in 0..3 {
        let said = bench.look().unwrap_err();
        assert!(said.word == "burn-in-failed" && said.text.contains("no room for it"), "{said:?}");
    }
    assert_eq!((bench.begun(), bench.burn_ins.said("naa.1")), (1, Some("no room for it")));
    bench.looks_elsewhere(UNASKED_LOOKS);
    assert_eq!(bench.look().unwrap_err().word, "burn-in");
}

/// With no disk of its own a directory is one of the file system above, which nobody wants filled.
#[test]
fn nothing_is_written_where_nothing_is_mounted() {
    let directory = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let failed = burn(directory.path(), BurnInDemand::Quick, &stop, &|_| {}).unwrap_err();
    assert!(failed.message.contains("mount"), "{}", failed.message);
    assert_eq!(BurnInRecord::read(directory.path()).unwrap(), None);
}
