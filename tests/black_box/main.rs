//! The real program against a real server, each on an instance of its own.

mod bench;
mod bulk;
mod damage;
mod data_sets;
mod full;
mod harness;
mod http;
mod identity;
mod instances;
mod kills;
mod newcomer;
mod operating;
mod plan;
mod quota;
mod rebuild;
mod refusals;
mod removals;
mod replay;
mod report;
mod screens;
mod scsi_library;
mod tape;
mod times;
mod transfer;
mod trouble;
mod usage;
