//! FORMAT MEDIUM and REPORT DENSITY SUPPORT (SSC-5).

use base::{BlockAddress, Partition, TapePosition};
use scsi::command::FormatKind;
use scsi::density::{Density, DensityReport, MediumType, MediumTypeReport};

use super::{PARTITIONS_ATTRIBUTE, Run, Tape};
use crate::answer::{Outcome, Refusal, give};

impl Tape {
    /// Makes one partition, or as many as the mode page has been set to. All that stood on the cartridge is
    /// gone.
    pub fn format_medium(&mut self, _run: &Run<'_>, format: FormatKind, length: u16) -> Outcome {
        // Parameter data belongs to no format that is known.
        if length != 0 {
            return Err(Refusal::field(3));
        }
        let at = self.position()?;
        let begin = TapePosition { partition: self.first_partition(), block: BlockAddress(0) };
        if at != begin {
            // 5/3B/0C: not where it must stand.
            return Err(Refusal::illegal(0x3b, 0x0c));
        }
        let partitions = match format {
            FormatKind::Default => 1,
            FormatKind::Partition | FormatKind::DefaultThenPartition => {
                let now = self.medium()?.partitions.saturating_sub(1);
                1 + self.settings.additional_partitions.unwrap_or(now)
            }
        };
        self.medium()?.forget();
        self.drive.format_partitions()?;
        self.drive.write_attribute(Partition::Index, PARTITIONS_ATTRIBUTE, &[partitions])?;
        self.settings.additional_partitions = None;
        self.order = None;
        self.medium()?.partitions = partitions;
        let begin = TapePosition { partition: self.first_partition(), block: BlockAddress(0) };
        self.drive.locate(begin)?;
        Ok(0)
    }

    pub fn report_density(
        &mut self,
        run: &mut Run<'_>,
        medium_type: bool,
        of_medium: bool,
        allocation: u16,
    ) -> Outcome {
        let mut density = run.shared.options.density.clone();
        if of_medium {
            let capacity = self.medium()?.capacity.0;
            density.capacity_megabytes = u32::try_from(capacity / 1_000_000).unwrap_or(u32::MAX);
        }
        let data = if medium_type {
            MediumTypeReport(vec![medium_of(&density)]).encode()
        } else {
            DensityReport(vec![density]).encode()
        };
        Ok(give(&data, u64::from(allocation), run.into))
    }
}

fn medium_of(density: &Density) -> MediumType {
    let mut densities = [0; 9];
    if let Some(first) = densities.first_mut() {
        *first = density.primary;
    }
    MediumType {
        density_count: 1,
        densities,
        width_tenths: density.width_tenths,
        organization: density.organization,
        name: density.name,
        description: density.description,
        ..MediumType::default()
    }
}
