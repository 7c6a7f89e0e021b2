//! The disk pool, the network, and the way between pool and tape.

use base::{ByteCount, StripeCode};

use super::finding::{Finding, wrong};
use super::{percent, rate, span};
use crate::form::{DataPath, Disks, Network, Pool, Scenario};
use crate::model;

/// The most shards of a stripe, as the server has it.
const WIDTH_MAX: u32 = 64;

/// The pool and its network.
pub fn pool(form: &Scenario) -> Result<model::PoolModel, Finding> {
    let Pool { capacity, high_water, low_water, data, parity, local_parity, tape_first, disks } = &form.pool;
    if capacity.0 == 0 {
        return wrong(&["pool", "capacity"], "the pool has space for files: write a size such as \"1PB\"");
    }
    let high_water_percent = percent(&["pool", "high_water"], *high_water)?;
    let low_water_percent = percent(&["pool", "low_water"], *low_water)?;
    if low_water_percent > high_water_percent {
        return wrong(&["pool", "low_water"], "it is no more than high_water");
    }
    Ok(model::PoolModel {
        capacity: ByteCount(capacity.0),
        high_water_percent,
        low_water_percent,
        disks: disks.as_ref().map(disk_model).transpose()?,
        write_factor: write_factor(*data, *local_parity, *parity)?,
        tape_first: *tape_first,
        network: network(&form.network)?,
    })
}

/// Shards written for each data shard.
fn write_factor(data: u32, local: u32, global: u32) -> Result<f64, Finding> {
    if data == 0 {
        return wrong(&["pool", "data"], "a stripe has at least one data shard");
    }
    if local > data {
        return wrong(
            &["pool", "local_parity"],
            "each local parity needs data of its own: at most pool.data",
        );
    }
    let width = [data, local, global].iter().fold(0_u32, |sum, shards| sum.saturating_add(*shards));
    if width > WIDTH_MAX {
        return wrong(&["pool", "data"], &format!("data and parity are together at most {WIDTH_MAX}"));
    }
    // As the server computes it.
    let [data, local, global] = [data, local, global].map(|shards| shards as u8);
    let code = StripeCode { data, local, global };
    Ok(code.width() as f64 / f64::from(data))
}

fn disk_model(form: &Disks) -> Result<model::Disks, Finding> {
    let Disks {
        count,
        rate: streaming,
        seek,
        stream_request,
        client_request,
        read_limit,
        write_limit,
        total_limit,
        small_write_factor,
    } = form;
    let path = |key| ["pool", "disks", key];
    if *count == 0 {
        return wrong(&path("count"), "at least one disk; leave [pool.disks] out for disks without limit");
    }
    if stream_request.0 == 0 {
        return wrong(&path("stream_request"), "a request moves at least a byte");
    }
    if client_request.0 == 0 {
        return wrong(&path("client_request"), "a request moves at least a byte");
    }
    if !(1.0..=1000.0).contains(small_write_factor) {
        return wrong(&path("small_write_factor"), "it is 1 to 1000; RAID 5: 4.0, RAID 6: 6.0");
    }
    Ok(model::Disks {
        count: *count,
        rate: rate(&path("rate"), *streaming)?,
        seek: span(*seek),
        stream_request: ByteCount(stream_request.0),
        client_request: ByteCount(client_request.0),
        read_limit: rate(&path("read_limit"), *read_limit)?,
        write_limit: rate(&path("write_limit"), *write_limit)?,
        total_limit: rate(&path("total_limit"), *total_limit)?,
        small_write_factor: *small_write_factor,
    })
}

fn network(form: &Network) -> Result<model::Network, Finding> {
    let Network { total, stream } = form;
    let (total, stream) = (rate(&["network", "total"], *total)?, rate(&["network", "stream"], *stream)?);
    Ok(model::Network { total, stream })
}

/// The way between pool and tape.
pub fn path(form: &DataPath) -> Result<model::DataPath, Finding> {
    let DataPath {
        read_file,
        write_file,
        stream,
        total,
        read_stream,
        read_total,
        write_stream,
        write_total: write_all,
    } = form;
    Ok(model::DataPath {
        read_file: span(*read_file),
        write_file: span(*write_file),
        stream: rate(&["path", "stream"], *stream)?,
        total: rate(&["path", "total"], *total)?,
        read: model::OneWay {
            stream: rate(&["path", "read_stream"], *read_stream)?,
            total: rate(&["path", "read_total"], *read_total)?,
        },
        write: model::OneWay {
            stream: rate(&["path", "write_stream"], *write_stream)?,
            total: rate(&["path", "write_total"], *write_all)?,
        },
    })
}
