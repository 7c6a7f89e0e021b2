//! The one truth about names, files, copies, tapes and requests.
