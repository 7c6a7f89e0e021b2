//! Values of fields that stand for something.

/// A value of a field that stands for something.
pub(crate) trait Code: Copy {
    /// The value that this byte stands for, if it does.
    fn of(byte: u8) -> Option<Self>;
    /// The byte.
    fn byte(self) -> u8;
}

/// Defines the values of a field. `open`: unknown ones are kept as `Other`; `closed`: they are refused.
macro_rules! codes {
    (
        open $(#[$meta:meta])*
        $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal $text:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$doc])* #[doc = concat!($text, ".")] $variant,)*
            /// A value that is not known.
            Other(u8),
        }

        impl $name {
            /// What the value of the field stands for.
            #[must_use]
            pub fn of(byte: u8) -> $name {
                match byte { $($code => $name::$variant,)* other => $name::Other(other) }
            }

            /// The value of the field.
            #[must_use]
            pub fn byte(self) -> u8 {
                match self { $($name::$variant => $code,)* $name::Other(byte) => byte }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($name::$variant => f.write_str($text),)*
                    $name::Other(byte) => write!(f, "{byte:02X}h"),
                }
            }
        }

        impl $crate::code::Code for $name {
            fn of(byte: u8) -> Option<Self> { Some($name::of(byte)) }
            fn byte(self) -> u8 { $name::byte(self) }
        }

        impl Default for $name {
            fn default() -> Self { $name::of(0) }
        }
    };
    (
        closed $(#[$meta:meta])*
        $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal $text:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$doc])* #[doc = concat!($text, ".")] $variant,)*
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self { $($name::$variant => f.write_str($text),)* }
            }
        }

        impl $crate::code::Code for $name {
            fn of(byte: u8) -> Option<Self> {
                match byte { $($code => Some($name::$variant),)* _ => None }
            }
            fn byte(self) -> u8 {
                match self { $($name::$variant => $code,)* }
            }
        }
    };
}
pub(crate) use codes;
