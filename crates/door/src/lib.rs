//! The doors: HTTP data and admin interfaces.
