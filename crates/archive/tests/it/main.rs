//! The tests of this crate from outside, in one program: each is linked once.

mod access_days;
mod access_log;
mod added;
mod awaited;
mod backup;
mod backup_times;
mod bases;
#[path = "common/bases.rs"]
mod bases_often;
mod checks;
mod cleaning;
mod clocks;
mod closing;
mod common;
mod dangling;
mod data_sets;
mod disks;
mod drained;
mod drive_orders;
mod drives;
mod emptied;
mod errors;
mod exports;
#[path = "common/faulty.rs"]
mod faulty;
mod foretold;
mod full_catalogue;
mod given_back;
mod given_up;
mod glacier;
#[path = "common/held.rs"]
mod held;
#[path = "common/histories.rs"]
mod histories;
#[path = "common/history.rs"]
mod history;
mod host;
mod hung_drives;
mod idle_sessions;
mod index_partition;
mod inventory;
#[path = "common/kept.rs"]
mod kept;
mod keys;
mod keys_relied_on;
mod later_points;
mod leaving;
mod libraries;
#[path = "common/listed.rs"]
mod listed;
mod lost_reasons;
mod many_tapes;
mod mount_report;
mod multipart;
mod not_blank;
mod objects;
mod openness;
#[path = "common/ordering.rs"]
mod ordering;
mod pack_sizes;
mod packs;
mod path_requests;
mod placed;
mod places;
mod promises;
mod quotas;
mod reasons;
mod rebalanced;
mod rebuild;
mod recall_order;
mod reclaims;
mod recoded;
mod repairs;
mod replaced;
mod requests_kept;
mod restores;
#[path = "common/restoring.rs"]
mod restoring;
mod room;
mod round_trip;
mod same_tape;
#[path = "../errors/samples.rs"]
mod samples;
mod sealing;
mod segments;
mod settling;
mod settling_doubt;
#[path = "common/small_files.rs"]
mod small_files;
mod small_space;
mod storm;
mod trees;
mod trouble;
mod unknown;
mod unreached;
mod unreadable;
mod uploads;
#[path = "common/within.rs"]
mod within;
