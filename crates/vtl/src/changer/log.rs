//! Log pages of the changer (SMC-3): TapeAlert flags, and what the robot has done since the target was made.

use scsi::log::{LogPage, LogParameter, TapeAlerts, changer_statistics as statistics, page, temperature};

/// What is counted and raised.
#[derive(Default)]
pub struct Log {
    /// Cartridges that were moved: each was gripped once, and put down once.
    pub moves: u32,
    /// Flags that were raised and not told yet. This robot has none of its own: tests raise them.
    pub alerts: TapeAlerts,
    /// There is no thermometer: tests set it.
    pub celsius: Option<u8>,
}

impl Log {
    /// The pages that there are.
    pub fn pages(&self) -> Vec<u8> {
        let always = [page::SUPPORTED, page::CHANGER_STATISTICS, page::TAPE_ALERT];
        always.into_iter().chain(self.celsius.map(|_| page::TEMPERATURE)).collect()
    }

    /// One of them. Telling the flags clears them.
    pub fn page(&mut self, code: u8) -> LogPage {
        let counter =
            |code, value: u32| LogParameter::of_number(code, LogParameter::BINARY_LIST, 4, value.into());
        let parameters = match code {
            page::TAPE_ALERT => return std::mem::take(&mut self.alerts).to_log(),
            page::TEMPERATURE => {
                let celsius = self.celsius.unwrap_or(u8::MAX);
                vec![LogParameter::of_number(temperature::NOW, LogParameter::BINARY_LIST, 2, celsius.into())]
            }
            _ => {
                let (moves, none) = (self.moves, 0);
                vec![
                    counter(statistics::MOVES, moves),
                    counter(statistics::PICKS, moves),
                    counter(statistics::PICK_RETRIES, none),
                    counter(statistics::PLACES, moves),
                    counter(statistics::PLACE_RETRIES, none),
                ]
            }
        };
        LogPage { code, parameters, ..LogPage::default() }
    }
}
