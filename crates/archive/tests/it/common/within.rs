//! Libraries of tests that do one thing themselves, and all else as the library within them.

/// These methods of `Library` are those of `self.library`.
macro_rules! as_the_library_within {
    ($($method:ident)+) => { $(as_the_library_within!(@ $method);)+ };
    (@ inventory) => {
        fn inventory(&self) -> Result<Vec<library::CartridgeInfo>, library::LibraryError> {
            self.library.inventory()
        }
    };
    (@ changes) => {
        fn changes(&self) -> Result<u64, library::LibraryError> {
            self.library.changes()
        }
    };
    (@ drives) => {
        fn drives(&self) -> Vec<library::DriveName> {
            self.library.drives()
        }
    };
    (@ without_vid) => {
        fn without_vid(&self) -> Vec<String> {
            self.library.without_vid()
        }
    };
    (@ out_of_reach) => {
        fn out_of_reach(&self) -> Vec<String> {
            self.library.out_of_reach()
        }
    };
    (@ library_of) => {
        fn library_of(&self, drive: &library::DriveName) -> u16 {
            self.library.library_of(drive)
        }
    };
    (@ take_drive) => {
        fn take_drive(
            &self,
            name: &library::DriveName,
        ) -> Result<Box<dyn library::TapeDrive>, library::LibraryError> {
            self.library.take_drive(name)
        }
    };
    (@ mount) => {
        fn mount(&self, vid: base::Vid, drive: &library::DriveName) -> Result<(), library::LibraryError> {
            self.library.mount(vid, drive)
        }
    };
    (@ unmount) => {
        fn unmount(&self, drive: &library::DriveName) -> Result<base::Vid, library::LibraryError> {
            self.library.unmount(drive)
        }
    };
    (@ look_again) => {
        fn look_again(&self, scan: bool) -> Result<(), library::LibraryError> {
            self.library.look_again(scan)
        }
    };
    (@ export) => {
        fn export(&self, vid: base::Vid) -> Result<library::Slot, library::LibraryError> {
            self.library.export(vid)
        }
    };
    (@ import) => {
        fn import(&self, vid: base::Vid) -> Result<library::Slot, library::LibraryError> {
            self.library.import(vid)
        }
    };
}
pub(crate) use as_the_library_within;
