//! The ways on the tape: where its wraps end, what locates take, and in which order the drive would go.

use std::time::Instant;

use base::{BlockAddress, Partition};
use library::ReadBlock;
use mechanics::{LocateFit, LocateSample, Track};
use session::order::{Aim, OrderLimits, Segment, plan, trace};

use super::{at, median};
use crate::report::Unit;
use crate::run::{Figures, Outcome, Run, Trouble};

/// Locates that are timed.
const LOCATES: u64 = 32;
/// Segments that are put in order, and how many blocks each has at most.
const SEGMENTS: u64 = 16;
const SEGMENT_BLOCKS: u64 = 4;

/// READ END OF WRAP POSITION.
pub fn wrap_ends(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let Some(ends) = run.tape.end_of_wrap_positions()? else {
        return Err(Trouble::NotOffered("the drive does not tell where wraps end".to_owned()));
    };
    figures.add("wraps with data", ends.len() as f64, Unit::Count);
    let end = run.tape.space_to_end_of_data(Partition::Data)?;
    if !ends.is_sorted_by(|one, next| one < next) {
        return Err(Trouble::Wrong("the ends of wraps do not ascend".to_owned()));
    }
    match ends.last() {
        Some(last) if last.0 > end.block.0 => Err(Trouble::Wrong(format!(
            "the last wrap ends in front of block {last}, behind the end of data at block {}",
            end.block
        ))),
        _ => Ok(()),
    }
}

/// Bytes of a block of the data partition in the mean: the model lays blocks out by it where the drive does
/// not tell where wraps end.
fn mean_block(run: &Run<'_>) -> u32 {
    let (mut bytes, mut blocks) = (0, 0);
    for region in &run.regions {
        bytes += region.blocks * region.size as u64;
        blocks += region.blocks;
    }
    u32::try_from(bytes.checked_div(blocks).unwrap_or(super::BLOCK as u64)).unwrap_or(u32::MAX).max(1)
}

/// Locates over all distances that the data have, each beside what the model says.
pub fn locate_times(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let scsi = run.scsi()?;
    let block = mean_block(run);
    let end = run.tape.space_to_end_of_data(Partition::Data)?.block.0;
    if end < 2 {
        return Err(Trouble::Wrong("there are no data to locate in".to_owned()));
    }
    // What was measured before is put away.
    let track = scsi.model_track(block)?;
    let mut buffer = vec![0; scsi.block_bytes_max()];
    for number in 0..LOCATES {
        // The golden section goes over the whole in steps of all sizes.
        let part = (number * 618_034) % 1_000_000;
        let to =
            at(Partition::Data, u64::try_from(u128::from(end) * u128::from(part) / 1_000_000).unwrap_or(0));
        run.tape.locate(to)?;
        run.tape.read_block(&mut buffer)?;
    }
    let times = scsi.recent_locates();
    let mut took: Vec<f64> = times.iter().map(|locate| locate.took.as_secs_f64()).collect();
    took.sort_by(f64::total_cmp);
    figures.add("locates", times.len() as f64, Unit::Count);
    figures.add("shortest", took.first().copied().unwrap_or_default(), Unit::Seconds);
    figures.add("median", median(took.clone()), Unit::Seconds);
    figures.add("longest", took.last().copied().unwrap_or_default(), Unit::Seconds);
    let Some(track) = track else {
        return Err(Trouble::NotOffered("there is no model of this drive to compare them with".to_owned()));
    };
    let sample = |locate: &library::scsi::TimedLocate| LocateSample {
        from: track.place(locate.from),
        to: track.place(locate.to),
        took_us: u64::try_from(locate.took.as_micros()).unwrap_or(u64::MAX),
    };
    let samples: Vec<LocateSample> = times.iter().map(sample).collect();
    let model = |sample: &LocateSample| track.locate_us(sample.from, sample.to) as f64 / 1e6;
    figures.add("median by the model", median(samples.iter().map(model).collect()), Unit::Seconds);
    let fit = LocateFit::of(&track.locate, &track.map, &samples);
    figures.add("fixed part beside the model", fit.fixed, Unit::Times);
    figures.add("way beside the model", fit.way, Unit::Times);
    let fitted = Track { locate: track.locate.fitted(&fit), ..track.clone() };
    let off = |sample: &LocateSample| {
        let model = fitted.locate_us(sample.from, sample.to) as f64 / 1e6;
        (sample.took_us as f64 / 1e6 - model).abs()
    };
    figures.add("deviation of the fitted model", median(samples.iter().map(off).collect()), Unit::Seconds);
    Ok(())
}

/// Segments all over the data, the last first so that no order is right by chance.
fn segments(run: &Run<'_>) -> Vec<Segment> {
    let begin = run.regions.first().map_or(0, |region| region.begin.block.0);
    let end = run.regions.last().map_or(0, |region| region.begin.block.0 + region.blocks);
    let count = SEGMENTS.min((end - begin) / 2);
    let each = (end - begin).checked_div(count).unwrap_or(0);
    let segment = |number: u64| {
        // Neither the order of blocks nor its reverse.
        let begin = begin + each * ((number * 7 + 3) % count);
        let blocks = SEGMENT_BLOCKS.min((each / 2).max(1));
        Segment { begin: BlockAddress(begin), end: BlockAddress(begin + blocks) }
    };
    let mut segments: Vec<Segment> = (0..count).map(segment).collect();
    // Where 7 and the count have a factor in common some would come twice.
    segments.dedup();
    let mut seen = std::collections::BTreeSet::new();
    segments.retain(|segment| seen.insert(*segment));
    segments
}

/// RECOMMENDED ACCESS ORDER, beside the order that the archive would take.
pub fn access_order(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let scsi = run.scsi()?;
    let segments = segments(run);
    if segments.len() < 2 {
        return Err(Trouble::Wrong("there are not enough data to put in order".to_owned()));
    }
    let begin = at(Partition::Data, 0);
    run.tape.locate(begin)?;
    let pairs: Vec<_> = segments.iter().map(|segment| (segment.begin, segment.end)).collect();
    let begun = Instant::now();
    let drives = match run.tape.recommended_order(&pairs) {
        Err(library::TapeError::NotAnOrder { .. }) => {
            let what = "its recommended access order does not name each segment once";
            return Err(Trouble::Wrong(what.to_owned()));
        }
        answer => answer?,
    };
    let asked = begun.elapsed().as_secs_f64();
    let drives = match drives {
        Some(order) => order,
        None => {
            return Err(Trouble::NotOffered("the drive recommends no access order".to_owned()));
        }
    };
    figures.add("segments", segments.len() as f64, Unit::Count);
    figures.add("asking", asked, Unit::Seconds);
    let track = scsi.model_track(mean_block(run))?;
    let Some(track) = track else {
        let took = walk(run, &segments, &drives)?;
        figures.add("the drive's order", took, Unit::Seconds);
        return Ok(());
    };
    let own = plan(&track, begin.block, &segments, Aim::LastFile, &OrderLimits::default());
    let own: Vec<usize> = own.visits.iter().map(|visit| visit.segment).collect();
    for (whose, order) in [("the drive's order", &drives), ("Kist's order", &own)] {
        let model = trace(&track, begin.block, &segments, order.iter().copied());
        figures.add(format!("{whose} by the model"), model.last_us as f64 / 1e6, Unit::Seconds);
        let took = walk(run, &segments, order)?;
        figures.add(whose, took, Unit::Seconds);
    }
    Ok(())
}

/// Reads segments in an order and says how long it took.
fn walk(run: &mut Run<'_>, segments: &[Segment], order: &[usize]) -> Outcome<f64> {
    let mut buffer = vec![0; run.scsi()?.block_bytes_max()];
    run.tape.locate(at(Partition::Data, 0))?;
    let begun = Instant::now();
    for segment in order.iter().filter_map(|index| segments.get(*index)) {
        run.tape.locate(at(Partition::Data, segment.begin.0))?;
        for number in segment.begin.0..segment.end.0 {
            if run.tape.read_block(&mut buffer)? == ReadBlock::EndOfData {
                return Err(Trouble::Wrong(format!("data end at block {number}")));
            }
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}
