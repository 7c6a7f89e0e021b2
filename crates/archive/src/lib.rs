//! The engine: ingest, migrate, recall, evict.
