//! The `kist.toml` that `kist init` writes: complete, with a reason beside each key.

use std::fmt::Write;

use base::ByteCount;

use super::value::Size;

/// What `kist init` is asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Template {
    /// Address and port.
    pub listen: String,
    /// Address and port of S3, if it is served; then there is a class for its `GLACIER` too.
    pub s3_listen: Option<String>,
    /// Address and port of WebDAV; not served without it.
    pub webdav_listen: Option<String>,
    /// Drives of the pool.
    pub drives: u16,
    /// Data shards.
    pub data: u8,
    /// Parity shards of all data.
    pub parity: u8,
    /// Local parity shards.
    pub local_parity: u8,
    /// Tape drives.
    pub tape_drives: u16,
    /// The size of packs; `None`: the default.
    pub pack_size: Option<Size>,
    /// The drive whose time the library takes, and how many times as fast.
    pub timing: Option<(String, f64)>,
    /// Short ages and small packs, so that everything happens while one watches.
    pub demo: bool,
}

impl Default for Template {
    fn default() -> Self {
        Template {
            listen: "127.0.0.1:7420".to_owned(),
            s3_listen: None,
            webdav_listen: None,
            drives: 8,
            data: 4,
            parity: 2,
            local_parity: 0,
            tape_drives: 2,
            pack_size: None,
            timing: None,
            demo: false,
        }
    }
}

/// What differs between an instance for work and one for a demonstration.
struct Values {
    pack: Size,
    large: &'static str,
    pack_age: &'static str,
    mount_bytes: &'static str,
    mount_age: &'static str,
    flush_bytes: &'static str,
    index_bytes: &'static str,
    recall_age: &'static str,
    recall_bytes: &'static str,
    dismount_delay: &'static str,
    retry_delay: &'static str,
}

fn values(template: &Template) -> Values {
    if template.demo {
        return Values {
            pack: template.pack_size.unwrap_or(Size(ByteCount::mib(64))),
            large: "8MiB",
            // Long enough that a put of a minute is not cut into many small packs and mounts; `kist migrate
            // --now` hurries.
            pack_age: "30s",
            mount_bytes: "8GiB",
            mount_age: "30s",
            flush_bytes: "256MiB",
            index_bytes: "1GiB",
            recall_age: "1s",
            recall_bytes: "256MiB",
            dismount_delay: "1s",
            retry_delay: "5s",
        };
    }
    Values {
        pack: template.pack_size.unwrap_or(Size(ByteCount::gib(4))),
        large: "1GiB",
        pack_age: "1h",
        mount_bytes: "100GiB",
        mount_age: "8h",
        flush_bytes: "32GiB",
        index_bytes: "300GiB",
        recall_age: "15s",
        recall_bytes: "100GiB",
        dismount_delay: "1min",
        retry_delay: "10min",
    }
}

/// The text of the file.
pub fn write(template: &Template) -> String {
    let values = values(template);
    let mut text = head(template);
    for drive in 0..template.drives {
        // Writing into a String cannot fail.
        let _ = write!(text, "\n[[pool.drives]]\nid = {drive}\npath = \"pool/d{drive}\"\nenclosure = \"\"\n");
    }
    text.push_str(&tape_part(template, &values));
    text.push_str(&classes_part(&values));
    if template.s3_listen.is_some() {
        text.push_str(&glacier_part(&values));
    }
    if template.webdav_listen.is_some() {
        text.push_str(GRID_PART);
    }
    text
}

fn head(template: &Template) -> String {
    let Template { listen, data, parity, local_parity, .. } = template;
    let s3 = match &template.s3_listen {
        Some(address) => format!("s3_listen = \"{address}\""),
        None => "# s3_listen = \"127.0.0.1:7421\"".to_owned(),
    };
    let webdav = match &template.webdav_listen {
        Some(address) => format!("webdav_listen = \"{address}\""),
        None => "# webdav_listen = \"127.0.0.1:7422\"".to_owned(),
    };
    format!(
        r#"# The settings of this instance. Sizes and spans have a unit: "64MiB", "100GB", "30s", "5min".
# Relative directories lie below the directory of this file. Check changes with: kist serve --check-config DIR
format = 1

[server]
# Address and port of the HTTP interface. Without TLS keep it on this machine or a trusted network.
listen = "{listen}"
# Address and port of S3. Without it S3 is not served.
{s3}
# Address and port of WebDAV, with third-party copy and the Tape REST API. Without it they are not served.
{webdav}
# Requests a second that one caller may begin over time. Without it: any number.
# requests_per_second = 100
# TLS at all addresses. New files are noticed, or read at once on SIGHUP. With client_ca and client_auth
# "optional" or "required" clients may or have to show a certificate of one of those authorities.
# tls = {{ certificate = "tls/server.pem", key = "tls/server.key" }}

[catalogue]
directory = "catalogue"
# Address space reserved for the catalogue, and the most that it can grow to; it uses disk only as it grows.
map_size = "64GiB"
# A request is forgotten so long after it has ended, with its list of files; of many requests the newest are
# kept. What still pins a file stays.
requests_kept = "30d"
requests_kept_max = 100000
# After so many changes a tape of each pool gets a base of the catalogue, with which a rebuild from tapes can
# begin (0: never), unless the changes since the last one take less than so many percent of the room of all
# else in the catalogue. What lies before such bases, and in the backup, leaves the log, but not the newest
# changes and not the young ones.
base_changes = 1000000
base_log_percent = 100
keep_changes = 100000
keep_age = "30d"

# The backup of the catalogue: every change is shipped, and a snapshot is taken now and then. Name a directory
# on other disks, whose parent is there, and take away the # signs.
# [backup]
# directory = "/mnt/backup/kist"
# What a lost catalogue costs at most.
# ship_every = "10s"
# A restore begins with a snapshot and replays the changes behind it.
# snapshot_every = "1d"
# The oldest snapshot kept is the earliest point of a restore.
# keep_snapshots = 7

[pool]
# A file is cut into rows of `data` cells with `parity` more: any `parity` drives of a row may fail.
data = {data}
parity = {parity}
# Besides, one XOR parity for each of so many groups of the data cells: one loss in a group is then rebuilt
# from its group alone. 0: none.
local_parity = {local_parity}
# Memory for the buffers of all reads and writes.
arena = "128MiB"
# How drives are read and written: "uring" has several reads and writes under way at each at one time
# (io_uring), "threads" one of each, "auto" is the first on solid-state disks if the kernel lets it.
# io = "auto"
# All of the pool is read and checked once in so many days, and repaired.
scrub_days = 14
# What a missing drive held is rebuilt on the others after this time; "kist pool drive lost" begins at once.
rebuild_after = "12h"
# What is done about disks by itself, where "kist disk watch" runs beside the server. A disk that foretells
# its failure: "tell", or "drain" its drive. A lost drive is replaced by the disk in its slot: "no", "mounted"
# (an empty file system at its directory), "blank" (a blank disk gets one), once it has passed its burn-in:
# "quick" (8 GiB, some minutes), "full" (all of it, two days for 20 TB), "off". A light shows which disk to
# pull.
predicted_failure = "tell"
replace = "no"
replace_burn_in = "quick"
lights = false
# What nothing in the catalogue names, such as what a crash has left, stays on the drives for this time after
# a start or a look has found it ("kist pool quarantine").
unknown_kept = "3d"
# When files take more than `high_water` of the room that there is for files, those that were not used for
# longest leave the pool by themselves, down to `low_water`: only such that are on all their tapes and that
# nobody pins. Without these two lines nothing leaves for want of room.
high_water = "90%"
low_water = "80%"

# The drives: directories, best a file system on a disk of its own each. A number is never given to another
# directory. Drives with the same `enclosure` are expected to fail together; empty: each on its own. So are
# drives with the same `host`; without it directories are of one.
"#
    )
}

fn tape_part(template: &Template, values: &Values) -> String {
    let Values { flush_bytes, index_bytes, recall_age, recall_bytes, dismount_delay, retry_delay, .. } =
        values;
    let Values { mount_bytes, mount_age, .. } = values;
    let tape_drives = template.tape_drives;
    let timing = timing_part(template);
    let rate_sign = if template.timing.is_some() { "# " } else { "" };
    let mut text = format!(
        r#"
[library]
# `virtual`: cartridges are directories of files. For a changer with tape drives, on this machine or by iSCSI:
# `kist library scan` prints what stands here then (kind = "scsi"; docs/reference/tape-libraries.md).
kind = "virtual"
directory = "library"
# Tape drives.
drives = {tape_drives}

{timing}
[tape]
# Block size of volumes that are labelled from now on.
block = "512KiB"
# What is on tape counts after a synchronous flush: after so many bytes or so long.
flush_bytes = "{flush_bytes}"
flush_age = "5min"
# An index on the data partition after so many bytes, and always before a tape is unmounted.
index_bytes = "{index_bytes}"
# Memory for buffers, per drive.
buffer = "32MiB"
# A tape is mounted for recall when its oldest request waits so long, or when so much is wanted from it.
recall_age = "{recall_age}"
recall_bytes = "{recall_bytes}"
# What the order of reading is to make short: the time to the "last-file", or the "mean-wait" of all files.
recall_order = "last-file"
# Whose order that is where the drive recommends one (RAO): "own", "drive", or the "cheaper" one.
recall_order_from = "cheaper"
# An idle tape stays mounted for so long.
dismount_delay = "{dismount_delay}"
# A drive or tape that failed is left alone for so long.
retry_delay = "{retry_delay}"
# A drive that asks to be cleaned is, and each cleaning cartridge is used so often; 0: the library cleans.
cleaning_uses_max = 50
# A drive that takes longer was not cleaned.
cleaning_time_max = "15min"
# What the pool owes each tape drive that reads or writes before it serves clients, a second; "0B": nothing.
# Without it: what the drives' model in [library.timing] takes, else 400MB.
{rate_sign}stream_rate = "400MB"
# Most drives that read or write at once; 0: all.
streams_max = 0
"#
    );
    text.push_str(MOUNTS);
    for name in ["vault-a", "vault-b"] {
        let _ = write!(
            text,
            "\n[[tape_pools]]\nname = \"{name}\"\nmount_bytes = \"{mount_bytes}\"\n\
             mount_age = \"{mount_age}\"\ndrives_max = 1\n"
        );
    }
    text
}

/// Who gets a drive, and when; and what tape pools are.
const MOUNTS: &str = r#"
# A tape is mounted for recall also when so many files are wanted from it, or at once for a request of this
# priority (0 to 9) or a higher one. Without these keys: not for that.
# recall_files = 10000
# recall_at_once = 9
# What waits so long goes before everything else, oldest first.
starvation = "6h"
# Classes share the drives by their weights; drive time that one used so long ago counts half.
share_half_life = "6h"
# Drives kept for reading and for writing as long as there is work for them, and the most that do it at once.
# Without a most: all.
recall_drives_min = 0
# recall_drives_max = 1
migration_drives_min = 0
# migration_drives_max = 1
# Most mounts and unmounts under way at once in each library; 0: any number.
mounts_at_once = 0
# A tape that was just unmounted stays in its slot for so long, unless so much waits for it or it starves.
remount_delay = "0s"
# remount_bytes = "100GB"

# Tape pools: each copy of a class goes to another one. A tape is mounted for writing when so much waits for
# the pool, or when the oldest waits so long. `drives_min` drives are kept for it; of `open_tapes_max` tapes,
# one must be full before another one is begun. With
#   encryption = { key = "ID", keys = "file:/etc/kist/tape-keys" }   (or keys = "command:/path/to/program")
# its new tapes are encrypted with that key; a tape of another key, or none, gets nothing new. Keep the keys
# apart from the tapes: without its key a tape is lost (docs/operations.md).
"#;

fn timing_part(template: &Template) -> String {
    let (sign, drive, scale) = match &template.timing {
        Some((drive, scale)) => ("", drive.as_str(), *scale),
        None => ("# ", "LTO-8", 1.0),
    };
    format!(
        r"# With this table, the virtual library takes the time that real drives and robots would.
{sign}[library.timing]
# The model of the drives, each with the medium that it is made for.
{sign}drive = {drive:?}
# So many times as fast as real ones.
{sign}scale = {scale:?}
# Robots that move cartridges at the same time.
{sign}robots = 1
"
    )
}

fn classes_part(values: &Values) -> String {
    let Values { pack, large, pack_age, .. } = values;
    let mut text = String::from(
        r#"
# Storage classes. A file gets the class that the client or its directory names, else the first whose `up_to`
# it fits. Files below `large` are gathered into packs of about `pack`; a pack that is not full is sealed
# after `pack_age`. With `recall = "pack"` a pack is recalled as a whole when one file of it is wanted. With
# `residency = "tape"` files leave the pool by themselves once all their copies are on tape, with "30d" when
# nobody has used them for so long. With `pool_max` recalls bring no more of a class into the pool than leaves
# it at that size, with `pool_min` so much of it stays, and files smaller than `evict_min` do not leave by
# themselves. `weight` (1) is its part of the drive time against other classes; `drives_min` (0) drives are
# kept for it and `drives_max` (all) the most that it has at once.
"#,
    );
    for (name, up_to) in [("small", "up_to = \"1MiB\"\n"), ("medium", "up_to = \"1GiB\"\n"), ("large", "")] {
        let _ = write!(
            text,
            "\n[[classes]]\nname = \"{name}\"\n{up_to}copies = [\"vault-a\", \"vault-b\"]\n\
             large = \"{large}\"\npack = \"{pack}\"\npack_age = \"{pack_age}\"\n"
        );
    }
    text
}

/// What a site of the grid sets beside addresses. A `# ` before a key, and text else.
const GRID_PART: &str = r#"
# What a site of the grid sets beside `webdav_listen`; all of it has a meaning without these lines too.
# Third-party copies (docs/reference/webdav.md): authorities of other servers' certificates (without it those
# of the system), and which private networks and hosts may be reached: none without it.
# [third_party_copy]
# authorities = ["/etc/grid-security/certificates"]
# allow = ["10.0.0.0/8", "*.example.org"]

# The Tape REST API (docs/reference/tape-rest.md): the name that clients address metadata to, for how long
# staged files are pinned if they say nothing, and at most, and priorities (0 to 9) of their activities.
# [tape_rest]
# sitename = "kist"
# lifetime = "1d"
# lifetime_max = "30d"
# activities = { "T0 Export" = 7 }

# A stock XRootD server with Kist's plugins, beside this server (docs/reference/xrootd.md): a socket in a
# directory that its user gets to, and that user. `kist xrootd config` writes its configuration. Only with
# this table is there a socket for it.
# [xrootd]
# socket = "/run/kist/xrootd.sock"
# user = "xrootd"
# group = "xrootd"
"#;

fn glacier_part(values: &Values) -> String {
    let Values { pack, large, pack_age, .. } = values;
    format!(
        r#"
# What S3's GLACIER is kept in: read only after a RestoreObject, and gone from the pool again after its days.
[[classes]]
name = "glacier"
copies = ["vault-a", "vault-b"]
residency = "tape"
large = "{large}"
pack = "{pack}"
pack_age = "{pack_age}"

[s3]
classes = {{ GLACIER = "glacier" }}
"#
    )
}
