//! Numbers and texts in frames: little-endian, texts with their length in front.

use thiserror::Error;

/// What is wrong with a frame. The connection ends with it: who sends one cannot be understood any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It ends before its last field.
    #[error("the frame ends before its {0}")]
    Short(&'static str),
    /// There is something behind its last field.
    #[error("the frame has {0} bytes behind its last field")]
    Long(usize),
    /// A field is larger than its limit.
    #[error("the {0} is larger than {1}")]
    Limit(&'static str, u64),
    /// A text is not UTF-8, or has a NUL.
    #[error("the {0} is not text in UTF-8")]
    NotText(&'static str),
    /// Another value than a field can have.
    #[error("the {0} is {1}, which stands for nothing")]
    Unknown(&'static str, u64),
}

/// The fields of a frame, one after the other.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// All of a body.
    pub fn of(body: &'a [u8]) -> Self {
        Fields(body)
    }

    fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], FrameError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(FrameError::Short(what))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FrameError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(FrameError::Short(what))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, FrameError> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, FrameError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, FrameError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A number up to `max`.
    pub fn up_to(&mut self, max: u32, what: &'static str) -> Result<u32, FrameError> {
        let number = self.u32(what)?;
        if number > max { Err(FrameError::Limit(what, max.into())) } else { Ok(number) }
    }

    /// A text of at most `max` bytes.
    pub fn text(&mut self, max: usize, what: &'static str) -> Result<String, FrameError> {
        let length = usize::from(self.u16(what)?);
        if length > max {
            return Err(FrameError::Limit(what, max as u64));
        }
        let text = std::str::from_utf8(self.take(length, what)?).map_err(|_| FrameError::NotText(what))?;
        if text.contains('\0') { Err(FrameError::NotText(what)) } else { Ok(text.to_owned()) }
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// That nothing is left.
    pub fn end(self) -> Result<(), FrameError> {
        if self.0.is_empty() { Ok(()) } else { Err(FrameError::Long(self.0.len())) }
    }
}

/// A body that is put together.
#[derive(Default)]
pub struct Body(pub Vec<u8>);

impl Body {
    pub fn u16(mut self, number: u16) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub fn u32(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub fn u64(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub fn i64(mut self, number: i64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// A text; what is longer than its length can say is cut.
    pub fn text(self, text: &str) -> Self {
        let text = text.get(..text.floor_char_boundary(usize::from(u16::MAX))).unwrap_or_default();
        let mut body = self.u16(u16::try_from(text.len()).unwrap_or(u16::MAX));
        body.0.extend_from_slice(text.as_bytes());
        body
    }
}
