//! Names of elements: page 07h (SES-3, 6.1.10).

use super::{Configuration, finish, header, page};
use crate::bytes::{Malformed, set_length, text_of};

/// The element descriptor page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Descriptors {
    /// The generation of the configuration that it belongs to.
    pub generation: u32,
    /// Of each type the text of all of it, then that of each element, as bytes.
    pub types: Vec<Vec<Vec<u8>>>,
}

impl Descriptors {
    const NAME: &'static str = "element descriptor page";

    /// Reads it.
    ///
    /// # Errors
    /// If it has fewer texts than `configuration` has elements.
    pub fn decode(bytes: &[u8], configuration: &Configuration) -> Result<Descriptors, Malformed> {
        let head = header(Descriptors::NAME, page::DESCRIPTOR, bytes)?;
        let mut body = head.body;
        let mut types = Vec::new();
        for kind in &configuration.types {
            let mut texts = Vec::new();
            for _ in 0..=kind.count {
                let [_, _] = body.array()?;
                let length = body.length16()?;
                texts.push(body.take(length)?.to_vec());
            }
            types.push(texts);
        }
        Ok(Descriptors { generation: head.generation, types })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If a text is longer than 65,535 bytes, or all of it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for text in self.types.iter().flatten() {
            body.extend([0; 4]);
            let at = body.len() - 2;
            set_length(&mut body, at, 2, text.len());
            body.extend(text);
        }
        finish(page::DESCRIPTOR, 0, self.generation, &body)
    }

    /// The name of an element; empty if it has none.
    #[must_use]
    pub fn name(&self, kind: usize, element: usize) -> String {
        let text = self.types.get(kind).and_then(|texts| texts.get(element + 1));
        text.map(|text| text_of(text).trim().to_owned()).unwrap_or_default()
    }
}
