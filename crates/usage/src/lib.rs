//! What users did: the lines of the access log, and what follows from them.
//!
//! Pure: lines come in as text, figures go out.
