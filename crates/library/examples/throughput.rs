//! How fast a virtual drive writes and reads: `cargo run --release -p library --example throughput -- DIR
//! [GiB]`.

use std::path::Path;
use std::time::Instant;

use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use library::{DriveName, Library, ReadBlock, VirtualLibrary, VirtualLibraryConfig};

const BLOCK: usize = 512 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("give a directory that does not exist yet")?;
    let gib: u64 = arguments.next().map_or(Ok(4), |text| text.parse())?;
    let (drive, vid) = (DriveName::new("vdrive0")?, Vid::new("KB0001")?);
    let config = VirtualLibraryConfig {
        drives: vec![drive.clone()],
        robots: 1,
        cartridges: vec![(vid, ByteCount::gib(gib + 1))],
        options: Default::default(),
        drop_cache: false,
    };
    let library = VirtualLibrary::create(Path::new(&directory), &config)?;
    library.mount(vid, &drive)?;
    let mut handle = library.take_drive(&drive)?;
    let start = TapePosition { partition: Partition::Data, block: BlockAddress(0) };
    handle.locate(start)?;
    let mut block: Vec<u8> = (0..BLOCK).map(|n| (n * 7 + n / 251) as u8).collect();
    let bytes = gib << 30;
    let rate = |since: Instant| bytes as f64 / 1e9 / since.elapsed().as_secs_f64();

    let since = Instant::now();
    for _ in 0..bytes / BLOCK as u64 {
        handle.write_block(&block)?;
    }
    println!("write {:.2} GB/s", rate(since));
    handle.write_filemarks(0)?;
    println!("write and flush {:.2} GB/s", rate(since));
    handle.locate(start)?;
    let since = Instant::now();
    while let ReadBlock::Data(_) = handle.read_block(&mut block)? {}
    println!("read {:.2} GB/s", rate(since));
    Ok(())
}
