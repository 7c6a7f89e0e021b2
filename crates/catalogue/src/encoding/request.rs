//! The bytes of requests and of their files, both of which grew: what came later stands behind all else if it
//! says something, so that records of a Kist of before are read as they are.

use crate::codec::{Codec, Reader};
use crate::record::{RequestItem, RequestRecord};

impl Codec for RequestRecord {
    fn put(&self, out: &mut Vec<u8>) {
        let Self {
            owner,
            created,
            state,
            ended,
            pin,
            files,
            bytes,
            done,
            done_bytes,
            failed,
            cancelled,
            swept,
            started,
            list,
        } = self;
        owner.put(out);
        created.put(out);
        state.put(out);
        ended.put(out);
        pin.put(out);
        files.put(out);
        bytes.put(out);
        done.put(out);
        done_bytes.put(out);
        failed.put(out);
        cancelled.put(out);
        swept.put(out);
        if (started, list) != (&None, &None) {
            started.put(out);
            list.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let mut record = Self {
            owner: Codec::take(input)?,
            created: Codec::take(input)?,
            state: Codec::take(input)?,
            ended: Codec::take(input)?,
            pin: Codec::take(input)?,
            files: Codec::take(input)?,
            bytes: Codec::take(input)?,
            done: Codec::take(input)?,
            done_bytes: Codec::take(input)?,
            failed: Codec::take(input)?,
            cancelled: Codec::take(input)?,
            swept: Codec::take(input)?,
            started: None,
            list: None,
        };
        if !input.is_empty() {
            (record.started, record.list) = (Codec::take(input)?, Codec::take(input)?);
            // One record has one form.
            if (record.started, record.list) == (None, None) {
                return None;
            }
        }
        Some(record)
    }
}

impl Codec for RequestItem {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { file, state, started, over, pin } = self;
        file.put(out);
        state.put(out);
        if (started, over, pin) != (&None, &None, &None) {
            started.put(out);
            over.put(out);
            pin.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let mut item = RequestItem::new(Codec::take(input)?, Codec::take(input)?);
        if !input.is_empty() {
            item.started = Codec::take(input)?;
            item.over = Codec::take(input)?;
            item.pin = Codec::take(input)?;
            if (item.started, item.over, item.pin) == (None, None, None) {
                return None;
            }
        }
        Some(item)
    }
}
