//! `archive::Archive` behind the door's seam.
