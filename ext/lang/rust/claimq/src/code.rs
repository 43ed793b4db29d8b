use std::fmt::{self, Display};

macro_rules! codes {
    ($($name:ident $word:literal)*) => {
        /// The code of an error of claimq.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($name,)* }

        impl Code {
            /// The word that stands in the message.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $word,)* }
            }

            fn parse(word: &str) -> Option<Code> {
                match word { $($word => Some(Code::$name),)* _ => None }
            }
        }
    };
}

codes! {
    BadArgument "bad_argument"
    NotInitialised "not_initialised"
    SchemaMismatch "schema_mismatch"
    ClaimLost "claim_lost"
    NotFound "not_found"
    Conflict "conflict"
    NoSlot "no_slot"
    RequestReused "request_reused"
    NotReclaimable "not_reclaimable"
    TooLarge "too_large"
    ReadOnly "read_only"
    UnsafePlan "unsafe_plan"
    NestedWrite "nested_write"
    InTransaction "in_transaction"
    ClockRequired "clock_required"
    Unsupported "unsupported"
}

impl Code {
    /// The code of an error, whatever a library has wrapped around its message
    /// `claimq: CODE: detail`; None if the error is not one of claimq's.
    pub fn of(error: &(impl Display + ?Sized)) -> Option<Code> {
        let text = error.to_string();
        text.match_indices("claimq: ")
            .filter(|(at, _)| !text[..*at].ends_with(is_word))
            .find_map(|(at, start)| {
                let (word, _) = text[at + start.len()..].split_once(": ")?;
                Code::parse(word)
            })
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

impl Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
