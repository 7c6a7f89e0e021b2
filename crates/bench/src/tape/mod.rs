//! `kist bench tape`: what the way to a tape drive costs, beside a plain TCP stream of the same bytes.
//!
//! No tape and no disk: the units take all and give what is in the buffer, so that what is measured is the
//! way there and back; then the driver of a tape drive on it, with checksums of blocks and without. Of these
//! the drive makes and looks at none: real ones do it in hardware. And the virtual library behind it all.

mod driver;
mod files;
mod null;
mod slices;
mod stream;
mod way;

use std::time::{Duration, Instant};

use iscsi::login::DigestWish;
use terminal::{Exit, Failure, Outcome, Progress, Style, output};

use self::driver::Place;
use self::slices::Measured;
use self::way::Way;
use crate::rows::{self, Row};

/// A block as LTFS volumes have them.
const BLOCK_BYTES: usize = 512 << 10;
/// Slices of each subject, and how long one is.
const ROUNDS: usize = 40;
const ROUNDS_QUICK: usize = 5;
const SLICE: Duration = Duration::from_millis(100);
/// Small commands of a measurement.
const COMMANDS: u32 = 20_000;
const COMMANDS_QUICK: u32 = 2_000;
/// What a small command may take.
const SMALL_COMMAND_MAX: Duration = Duration::from_micros(30);

/// What bounds the rates, and the small commands.
const STREAM: &str = "TCP stream";
/// The driver of a tape drive over iSCSI, without checksums of blocks and with them.
const WRITE: &str = "driver write";
const READ: &str = "driver read";
const WRITE_PROTECTED: &str = "driver write, LBP";
const READ_PROTECTED: &str = "driver read, LBP";
const BUDGET: &str = "one in 30 µs";

/// Measures and prints.
pub fn run(quick: bool, style: Style) -> Outcome {
    let rounds = if quick { ROUNDS_QUICK } else { ROUNDS };
    let begun = Instant::now();
    let progress = Progress::start("bench tape", rounds as u64, 0, style.quiet);
    let measured = measure(rounds, &|round| progress.set(round as u64, 0)).map_err(failed)?;
    drop(progress);
    let mut rows = rates(&measured);
    rows.push(small_commands(if quick { COMMANDS_QUICK } else { COMMANDS })?);
    rows::print(&rows, style)?;
    if !style.quiet && !style.json {
        output::note(&format!(
            "{} KiB a command, each row the median of {rounds} slices of {} ms, taken in turn, in {:.0} s",
            BLOCK_BYTES >> 10,
            SLICE.as_millis(),
            begun.elapsed().as_secs_f64()
        ));
    }
    Ok(())
}

fn failed(what: String) -> Failure {
    Failure::new(Exit::Internal, format!("bench tape: {what}"))
}

/// All in turn, in short slices: what else the machine does meets all of them alike.
fn measure(rounds: usize, told: &dyn Fn(usize)) -> Result<Vec<Measured>, String> {
    let plain = Way::new(DigestWish::Never)?;
    let checked = Way::new(DigestWish::Require)?;
    let directory = tempfile::tempdir().map_err(|error| format!("a directory: {error}"))?;
    let files = files::Files::new(directory.path())?;
    let mut subjects = vec![
        (STREAM, stream::plain(BLOCK_BYTES, false)?),
        ("TCP, an answer to each", stream::plain(BLOCK_BYTES, true)?),
        ("iSCSI write", plain.writes(BLOCK_BYTES)?),
        ("iSCSI read", plain.reads(BLOCK_BYTES)?),
        ("iSCSI write, CRC-32C", checked.writes(BLOCK_BYTES)?),
        ("iSCSI read, CRC-32C", checked.reads(BLOCK_BYTES)?),
        // Each next to the one that it is compared with: the less comes between.
        (WRITE, driver::writes(BLOCK_BYTES, Place::Socket, false)?),
        (WRITE_PROTECTED, driver::writes(BLOCK_BYTES, Place::Socket, true)?),
        (READ, driver::reads(BLOCK_BYTES, Place::Socket, false)?),
        (READ_PROTECTED, driver::reads(BLOCK_BYTES, Place::Socket, true)?),
        ("driver write in process", driver::writes(BLOCK_BYTES, Place::Process, false)?),
        ("driver write in process, LBP", driver::writes(BLOCK_BYTES, Place::Process, true)?),
        ("driver read in process, LBP", driver::reads(BLOCK_BYTES, Place::Process, true)?),
        ("virtual library write in process", files.commands(BLOCK_BYTES, false, Place::Process)?),
        ("virtual library read in process", files.commands(BLOCK_BYTES, true, Place::Process)?),
        ("virtual library write", files.commands(BLOCK_BYTES, false, Place::Socket)?),
        ("virtual library read", files.commands(BLOCK_BYTES, true, Place::Socket)?),
    ];
    slices::in_turn(&mut subjects, rounds, SLICE, told)
}

/// Each beside the plain stream.
fn rates(measured: &[Measured]) -> Vec<Row> {
    let row = |measured: &Measured| Row {
        value: measured.median,
        ..Row::bytes(measured.name, measured.bytes, measured.seconds)
    };
    let named = |name: &str| measured.iter().find(|measured| measured.name == name).map(row);
    // What checksums cost is told beside the same without.
    let limit_of = |name: &str| match name {
        STREAM => None,
        WRITE_PROTECTED => named(WRITE),
        READ_PROTECTED => named(READ),
        _ => named(STREAM),
    };
    let rows = measured.iter().map(|measured| match limit_of(measured.name) {
        Some(limit) => row(measured).against(&limit),
        None => row(measured),
    });
    rows.collect()
}

/// A command without data, over loopback.
fn small_commands(count: u32) -> Outcome<Row> {
    let mut times = Way::new(DigestWish::Never).and_then(|way| way.small_commands(count)).map_err(failed)?;
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64();
    let seconds = times.iter().sum::<Duration>().as_secs_f64();
    let limit = Row { name: BUDGET.to_owned(), ..Row::operations("", 1, 0, SMALL_COMMAND_MAX.as_secs_f64()) };
    let row = Row { seconds, ..Row::operations("iSCSI command without data", 1, 0, median) };
    Ok(row.against(&limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_measured_beside_the_stream() {
        let measured = measure(2, &|_| ()).unwrap();
        let rows = rates(&measured);
        assert_eq!(rows.len(), 17);
        assert!(rows.iter().all(|row| row.value > 0.0 && row.bytes > 0), "{rows:?}");
        let (stream, others) = rows.split_first().unwrap();
        assert_eq!((stream.name.as_str(), stream.ratio), (STREAM, 0.0));
        for row in others {
            let limit = match row.name.as_str() {
                WRITE_PROTECTED => WRITE,
                READ_PROTECTED => READ,
                _ => STREAM,
            };
            assert_eq!(row.limit_name, limit);
            assert!(limit != STREAM || row.limit.to_bits() == stream.value.to_bits());
            assert!((row.ratio - row.value / row.limit).abs() < 1e-9, "{row:?}");
        }
        let small = small_commands(100).unwrap();
        assert!(small.value > 0.0 && small.limit > 33_000.0, "{small:?}");
    }
}
