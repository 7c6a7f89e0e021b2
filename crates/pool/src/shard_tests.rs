//! Tests of a stream of which a drive drops steps, or that finds another drive in the place of its own.

use std::time::Duration;

use base::{BlobId, ManualClock, Timestamp, Uuid};
use drive::{DirectIo, DirectoryDrive, DriveQueue, ObjectDrive, PAGE, QueueEngine, ReadOperation};
use threads::mpsc::sync_channel;

use super::*;
use crate::drives::PoolDrive;
use crate::gather::Gather;
use crate::lane::Lane;
use crate::watch::Watch;

const INSTANCE: Uuid = Uuid([1; 16]);
const DRIVE: DriveId = DriveId(0);
const EXTENT: ExtentId = ExtentId { blob: BlobId(7), stripe: 0, shard: 0 };

fn drive() -> (tempfile::TempDir, Arc<dyn ObjectDrive>) {
    let directory = tempfile::tempdir().expect("a directory");
    DirectoryDrive::format(directory.path(), INSTANCE, DRIVE).expect("it is empty");
    let drive = DirectoryDrive::open(directory.path(), INSTANCE, DRIVE, DirectIo::Auto).expect("a drive");
    (directory, Arc::new(drive))
}

fn place(drive: &Arc<dyn ObjectDrive>) -> PoolDrive {
    PoolDrive::new((DRIVE, base::DriveGroup::MAIN), Some(Arc::clone(drive)), &Arc::new(Watch::default()))
}

fn stream() -> Arc<ShardStream> {
    Arc::new(ShardStream::new(EXTENT, DRIVE, ByteCount(1 << 20)))
}

/// A page of this byte.
fn page(byte: u8) -> Step {
    let mut page = AlignedBuffer::new(PAGE);
    page.as_mut_slice().fill(byte);
    Step::Append(Outgoing::Pages(page))
}

/// Queues an append that nobody waits for, as a segment does.
fn append(stream: &Arc<ShardStream>, present: &Present, byte: u8) {
    stream.queue(present, page(byte), || ());
}

/// Whether a step is told of, and the extent has not failed: then all before it counts.
fn counts(stream: &Arc<ShardStream>, present: &Present, step: Step) -> bool {
    let gather = Gather::new();
    let ticket = gather.ticket();
    stream.queue(present, step, move || ticket.done(()));
    gather.wait_unless(|_| false).len() == 1 && !stream.has_failed()
}

/// The drive is set aside while this runs, as by three failed reads; then a probe finds it well.
fn while_away(present: &Present, then: impl FnOnce()) {
    present.device.set_aside("three reads failed".to_owned());
    then();
    present.device.probed(Ok(()));
}

/// Story: an append was dropped by a drive that was away for a moment. The sync behind it covered older bytes
/// only, and the batch was acknowledged; the next batch stood in its place.
#[test]
fn an_append_dropped_by_a_drive_is_not_acknowledged_by_the_sync_behind_it() {
    let (_directory, drive) = drive();
    let (place, stream) = (place(&drive), stream());
    let present = place.present().expect("it is there");
    append(&stream, &present, 1);
    assert!(counts(&stream, &present, Step::Sync));
    while_away(&present, || append(&stream, &present, 2));
    assert!(!counts(&stream, &present, Step::Sync), "the second batch is not on the drive");
    append(&stream, &present, 3);
    assert!(!counts(&stream, &present, Step::Sync), "the third would stand in the place of the second");
    assert_eq!(drive.length(EXTENT).expect("the first batch is there"), ByteCount(PAGE as u64));
}

/// Story: as before, but of the first batch. There was no extent then, and a sync of nothing counted.
#[test]
fn an_extent_whose_first_append_was_dropped_is_neither_synced_nor_sealed() {
    for step in [Step::Sync, Step::Seal] {
        let (_directory, drive) = drive();
        let (place, stream) = (place(&drive), stream());
        let present = place.present().expect("it is there");
        while_away(&present, || append(&stream, &present, 1));
        assert!(!counts(&stream, &present, step));
        assert!(drive.length(EXTENT).is_err(), "no extent was made");
    }
}

#[test]
fn a_dropped_step_fails_its_extent_at_once_though_nobody_waits_for_it() {
    let (_directory, drive) = drive();
    let (place, stream) = (place(&drive), stream());
    let present = place.present().expect("it is there");
    while_away(&present, || append(&stream, &present, 1));
    assert!(stream.has_failed());
}

/// The queue of a drive is emptied by another thread, which may be late: the drive is up again, and has done
/// the sync, before the append is dropped.
#[test]
fn a_sync_does_not_count_if_the_append_before_it_is_about_to_be_dropped() {
    /// Tells when it is dropped, and keeps whoever drops it waiting.
    struct Slow(threads::mpsc::SyncSender<()>, threads::mpsc::Receiver<()>);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.send(()).expect("the test listens");
            self.1.recv().expect("the test lets it go");
        }
    }
    let (_directory, drive) = drive();
    let (place, stream) = (place(&drive), stream());
    let present = place.present().expect("it is there");
    let ((begun, has_begun), (go_on, goes_on)) = (sync_channel(1), sync_channel::<()>(1));
    present.call_writer(Box::new(move |_| {
        begun.send(()).expect("the test listens");
        goes_on.recv().expect("the test lets it go");
    }));
    has_begun.recv().expect("the drive is at it");
    // The jobs behind it wait.
    let ((dropping, is_dropping), (let_go, may_go)) = (sync_channel(1), sync_channel(1));
    let slow = Slow(dropping, may_go);
    present.call_writer(Box::new(move |_| drop(slow)));
    append(&stream, &present, 1);
    present.device.set_aside("it hangs".to_owned());
    let emptied = threads::spawn({
        let present = Arc::clone(&present);
        move || present.abandon()
    });
    is_dropping.recv().expect("the queue is emptied");
    present.device.probed(Ok(()));
    go_on.send(()).expect("the drive waits");
    assert!(!counts(&stream, &present, Step::Sync), "the append is still to be dropped");
    let_go.send(()).expect("it waits");
    emptied.join().expect("no panic");
}

/// The extent of a drive that was declared lost is no copy on the drive that took its place.
#[test]
fn a_stream_does_not_go_on_when_another_drive_has_taken_the_place_of_its_own() {
    for step in [Step::Sync, Step::Seal] {
        let ((_one, old), (_other, new)) = (drive(), drive());
        let (place, stream) = (place(&old), stream());
        let present = place.present().expect("it is there");
        append(&stream, &present, 1);
        assert!(counts(&stream, &present, Step::Sync));
        drop(present);
        place.declare_lost();
        assert!(place.attach(new), "the place is free");
        let present = place.present().expect("it is there");
        assert!(!counts(&stream, &present, step), "the new drive has nothing of the extent");
    }
}

#[test]
fn to_end_an_extent_to_which_nothing_was_to_be_appended_is_no_failure() {
    let (_directory, drive) = drive();
    let (place, stream) = (place(&drive), stream());
    let present = place.present().expect("it is there");
    assert!(counts(&stream, &present, Step::Seal));
    assert!(!stream.is_sealed() && drive.length(EXTENT).is_err(), "nothing was made");
}

/// A queue that keeps what it is handed.
#[derive(Clone, Default)]
struct Keeps(Arc<Mutex<Vec<Box<dyn WriteOperation>>>>);

impl DriveQueue for Keeps {
    fn depth(&self) -> usize {
        4
    }

    fn engine(&self) -> QueueEngine {
        QueueEngine::Own
    }

    fn read(&self, _: Box<dyn ReadOperation>) {
        panic!("nothing is read");
    }

    fn extent(&self, _: ExtentId, _: ByteCount, _: bool) -> Box<dyn QueuedExtent> {
        Box::new(self.clone())
    }
}

impl QueuedExtent for Keeps {
    fn submit(&mut self, operation: Box<dyn WriteOperation>) {
        lock(&self.0).push(operation);
    }
}

/// Story: a seal behind appends and a sync that took their time had the age of all of them, and its drive was
/// set aside although it had ended something a second before.
#[test]
fn a_step_behind_others_of_its_extent_begins_when_the_one_before_it_has_ended() {
    let (_directory, drive) = drive();
    let (clock, watch) = (Arc::new(ManualClock::new(Timestamp(0))), Arc::new(Watch::default()));
    clock.advance(Duration::from_secs(60));
    watch.set_clock(Arc::clone(&clock) as Arc<dyn base::Clock>);
    let (kept, lane) = (Keeps::default(), Lane::new(4));
    let mut device = Device::new(drive, Arc::default(), Arc::clone(&watch));
    Arc::get_mut(&mut device).expect("nobody else has it").queue = Arc::new(kept.clone());
    let stream = stream();
    for (number, step) in (0..).zip([page(1), page(2), Step::Sync, Step::Seal]) {
        let pending = Pending { stream: Arc::clone(&stream), is_over: false };
        QueuedStep { pending, number, step, then: || () }.begin(&device, lane.enter(&watch));
    }
    let age = || watch.now().since(lane.oldest(&watch).expect("something is under way"));
    for left in (0..4).rev() {
        clock.advance(Duration::from_secs(20));
        assert_eq!(age(), Duration::from_secs(20), "{left} behind it");
        let first = lock(&kept.0).remove(0);
        first.done(Ok(()));
        assert_eq!(lane.under_way(), left);
    }
    assert!(stream.is_sealed() && lane.oldest(&watch).is_none());
}

/// As of a queue whose connection broke: what is dropped untold makes way, too.
#[test]
fn a_step_begins_when_those_before_it_were_dropped() {
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let (watch, lane, line) = (Arc::new(Watch::default()), Lane::new(4), Arc::new(Line::default()));
    clock.advance(Duration::from_secs(60));
    watch.set_clock(Arc::clone(&clock) as Arc<dyn base::Clock>);
    let [first, second, third] = std::array::from_fn(|_| line.join(lane.enter(&watch), &watch));
    clock.advance(Duration::from_secs(5));
    let age = || watch.now().since(lane.oldest(&watch).expect("something is under way"));
    drop(second);
    assert_eq!((age(), third.flight().since()), (Duration::from_secs(5), None));
    drop(first);
    assert_eq!((age(), third.flight().since()), (Duration::ZERO, Some(watch.now())));
    drop(third);
    assert!(lane.under_way() == 0 && lane.oldest(&watch).is_none());
}

/// Story: when a drive's queue broke, the places of what it had were never free again, and the pool could not
/// close.
#[test]
fn what_a_queue_has_lost_fails_and_gives_its_place_back() {
    let (_directory, drive) = drive();
    let (watch, lane, kept, stream) = (Arc::new(Watch::default()), Lane::new(4), Keeps::default(), stream());
    let mut device = Device::new(drive, Arc::default(), Arc::clone(&watch));
    Arc::get_mut(&mut device).expect("nobody else has it").queue = Arc::new(kept.clone());
    let (sender, told) = sync_channel(1);
    let memory = Arc::new(AlignedBuffer::new(PAGE));
    let step = Step::Append(Outgoing::Shared(Arc::clone(&memory), PAGE));
    let pending = Pending { stream: Arc::clone(&stream), is_over: false };
    let then = move || sender.send(()).expect("the test listens");
    QueuedStep { pending, number: 0, step, then }.begin(&device, lane.enter(&watch));
    let source = std::io::Error::other("its queue broke");
    let error = DriveError::Io { drive: DRIVE, extent: EXTENT, operation: "write", source };
    let kept = lock(&kept.0).remove(0);
    kept.lost(error);
    told.recv().expect("it is told");
    assert!(stream.has_failed() && lane.under_way() == 0);
    assert_eq!(Arc::strong_count(&memory), 2, "the drive may read it still");
    assert!(!device.health().is_up());

    let place = crate::reading::ReadPlace::whole(EXTENT, 0, PAGE);
    let (sender, told) = sync_channel::<()>(1);
    let then = move |_: &Device, _, _| drop(sender);
    let (flight, memory) = (lane.enter(&watch), AlignedBuffer::new(PAGE));
    let read = Box::new(crate::reading::Reading { device, flight, place, memory, then });
    let source = std::io::Error::other("its queue broke");
    read.lost(DriveError::Io { drive: DRIVE, extent: EXTENT, operation: "reading", source });
    assert!(told.recv().is_err() && lane.under_way() == 0, "whoever waits for it knows");
}
