//! Commands with a type for their answer: one line for each command that answers something.
//!
//! [`Command`] is what is logged and [`Outcome`] is what the writer gives back, both for all commands.
//! Whoever gives one of these commands gets what it answers, and meets no outcome of another.

use base::{ClassId, ContainerId, DirId, Duration, Epoch, Name, RequestId, RunId, TapePoolId, UploadId, Vid};

use crate::command::{
    CloneFile, Command, CompleteUpload, EvictRefusal, OpenUpload, Outcome, PartsRecalled, PoolCopy, PoolLoss,
    PutFile, PutObject, PutOutcome, PutPart, RecallDone, Removal, RemovedFile, Requeue, Work,
};
use crate::record::{Attributes, QuotaSubject};

/// A command that answers something.
pub trait TypedCommand {
    /// What it answers.
    type Answer;

    /// The command as it is logged.
    fn into_command(self) -> Command;

    /// What the outcome says.
    ///
    /// # Errors
    /// The outcome, if it is none of such a command.
    fn answer(outcome: Outcome) -> Result<Self::Answer, Outcome>;
}

/// A put: with conditions, or a plain one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Put {
    /// As [`Command::PutFile`].
    File(Box<PutFile>),
    /// As [`Command::PutObject`].
    Object(Box<PutObject>),
}

impl From<Put> for Command {
    fn from(put: Put) -> Self {
        match put {
            Put::File(put) => Command::PutFile(put),
            Put::Object(put) => Command::PutObject(put),
        }
    }
}

/// What [`RemoveFile`] answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemovedName {
    /// What had the name is gone with it.
    Gone,
    /// The bucket keeps versions.
    Version(Removal),
}

/// Structs with the fields of the commands of their names.
macro_rules! structs {
    ($($name:ident { $($field:ident: $type:ty),* })*) => {
        $(
            #[doc = concat!("As [`Command::", stringify!($name), "`].")]
            #[derive(Clone, PartialEq, Eq, Debug)]
            pub struct $name {
                $(
                    #[doc = "As in the command."]
                    pub $field: $type,
                )*
            }

            impl From<$name> for Command {
                fn from($name { $($field),* }: $name) -> Self {
                    Command::$name { $($field),* }
                }
            }
        )*
    };
}

structs! {
    OpenEpoch {}
    DefineTapePool { name: String }
    DefineClass { name: String, copies: Vec<TapePoolId> }
    MakeDirectory { parent: DirId, name: Name, attributes: Attributes, class: Option<ClassId> }
    RemoveFile { parent: DirId, name: Name }
    RemoveObject { parent: DirId, name: Name, if_current: Option<base::FileId> }
    RemoveVersion { parent: DirId, name: Name, version: Option<base::FileId>, bypass: bool }
    ReserveContainer {}
    BeginRun { vid: Vid, drive: String, start: base::BlockAddress }
    BeginHistoryRun { vid: Vid, drive: String, start: base::BlockAddress }
    OpenRequest { owner: String, pin: Duration }
    OpenPathRequest { owner: String, pin: Duration }
    ClosePathRequest { request: RequestId, submission: base::Blake3 }
    Evict { files: Vec<base::FileId> }
    PoolCopiesLost { copies: Vec<PoolCopy> }
    RequeueCopy { container: ContainerId, vid: Vid }
    AbortUpload { upload: UploadId }
    CountQuota { subject: QuotaSubject }
}

/// Parts of [`Work`]: to be given again while there are more items.
macro_rules! parts {
    ($($name:ident { $($field:ident: $type:ty),* } => $command:expr;)*) => {
        $(
            #[doc = concat!("The next items of some [`Work`]: `", stringify!($command), "`.")]
            #[derive(Clone, PartialEq, Eq, Debug)]
            pub struct $name {
                $(
                    #[doc = "As in the command."]
                    pub $field: $type,
                )*
            }

            impl From<$name> for Command {
                fn from($name { $($field),* }: $name) -> Self {
                    $command
                }
            }
        )*
    };
}

parts! {
    CancelSome { request: RequestId } => Work::CancelRequest(request).some();
    ForgetSome { request: RequestId } => Work::ForgetRequest(request).some();
    EvictSomeCold {} => Work::EvictCold.some();
    DissolveSome { container: ContainerId } => Work::DissolvePack(container).some();
    ExpireSomePins {} => Work::ExpirePins.some();
    ExpireSomeAnswers {} => Work::ExpireIdempotency.some();
    TrimSome { through: u64, most: u32 } => Command::DoSome { work: Work::TrimChanges(through), most };
    CountSomePaths {} => Work::CountPaths.some();
    RemoveSomeOfTree { directory: DirId } => Work::RemoveTree(directory).some();
}

impl From<Box<CloneFile>> for Command {
    fn from(clone: Box<CloneFile>) -> Self {
        Command::CloneFile(clone)
    }
}

impl From<Box<RecallDone>> for Command {
    fn from(done: Box<RecallDone>) -> Self {
        Command::RecallDone(done)
    }
}

impl From<Box<PartsRecalled>> for Command {
    fn from(done: Box<PartsRecalled>) -> Self {
        Command::PartsRecalled(done)
    }
}

/// Begins an upload, as [`Command::BeginUpload`] does.
impl From<Box<OpenUpload>> for Command {
    fn from(open: Box<OpenUpload>) -> Self {
        Command::BeginUpload(open)
    }
}

impl From<Box<PutPart>> for Command {
    fn from(part: Box<PutPart>) -> Self {
        Command::PutPart(part)
    }
}

impl From<Box<CompleteUpload>> for Command {
    fn from(complete: Box<CompleteUpload>) -> Self {
        Command::CompleteUpload(complete)
    }
}

/// What each command answers, and by which outcome.
macro_rules! answers {
    ($($command:ty => $answer:ty: $($outcome:pat => $value:expr),+;)*) => {
        $(
            impl TypedCommand for $command {
                type Answer = $answer;

                fn into_command(self) -> Command {
                    self.into()
                }

                fn answer(outcome: Outcome) -> Result<$answer, Outcome> {
                    match outcome {
                        $($outcome => Ok($value),)+
                        other => Err(other),
                    }
                }
            }
        )*
    };
}

// `bool`: whether the command must be given again to go on. `u32`: how many items it was about.
answers! {
    OpenEpoch => Epoch: Outcome::Epoch(epoch) => epoch;
    DefineTapePool => TapePoolId: Outcome::TapePool(pool) => pool;
    DefineClass => ClassId: Outcome::Class(class) => class;
    MakeDirectory => DirId: Outcome::Directory(directory) => directory;
    Put => PutOutcome: Outcome::Put(done) => done;
    Box<CloneFile> => PutOutcome: Outcome::Put(done) => done;
    Box<CompleteUpload> => PutOutcome: Outcome::Put(done) => done;
    Box<OpenUpload> => UploadId: Outcome::Upload(upload) => upload;
    Box<PutPart> => u64: Outcome::Part(stamp) => stamp;
    Box<RecallDone> => u32: Outcome::Recalled(taken) => taken;
    Box<PartsRecalled> => u32: Outcome::Recalled(taken) => taken;
    RemoveFile => RemovedName:
        Outcome::Removed(_) => RemovedName::Gone,
        Outcome::RemovedVersion(removal) => RemovedName::Version(removal);
    RemoveObject => Removal: Outcome::RemovedVersion(removal) => removal;
    RemoveVersion => Removal: Outcome::RemovedVersion(removal) => removal;
    ReserveContainer => ContainerId: Outcome::Container(container) => container;
    BeginRun => RunId: Outcome::Run(run) => run;
    BeginHistoryRun => RunId: Outcome::Run(run) => run;
    OpenRequest => RequestId: Outcome::Request(request) => request;
    OpenPathRequest => RequestId: Outcome::Request(request) => request;
    ClosePathRequest => RequestId: Outcome::Request(request) => request;
    Evict => Vec<Result<(), EvictRefusal>>: Outcome::Evicted(results) => results;
    PoolCopiesLost => Vec<PoolLoss>: Outcome::PoolCopyLost(losses) => losses;
    RequeueCopy => Requeue: Outcome::Requeued(requeue) => requeue;
    AbortUpload => bool: Outcome::More(more) => more;
    CountQuota => bool: Outcome::More(more) => more;
    CancelSome => bool: Outcome::More(more) => more;
    ForgetSome => bool: Outcome::More(more) => more;
    CountSomePaths => bool: Outcome::More(more) => more;
    EvictSomeCold => bool: Outcome::More(more) => more;
    DissolveSome => bool: Outcome::More(more) => more;
    ExpireSomePins => u32: Outcome::Dropped(count) => count;
    ExpireSomeAnswers => u32: Outcome::Dropped(count) => count;
    TrimSome => u32: Outcome::Dropped(count) => count;
    RemoveSomeOfTree => (Vec<RemovedFile>, bool): Outcome::TreeRemoved { files, more } => (files, more);
}
