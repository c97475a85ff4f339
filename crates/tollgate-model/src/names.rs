//! Macros for enums whose variants have a name in texts or a code in stores.

/// Gives an enum `ALL`, `name`, `from_name` and `Display`, from a table of its variants.
macro_rules! names {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// All variants, in the order of the documentation.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in settings, API, logs and docs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Finds the variant with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.name() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// Gives an enum `code` and `from_code`: the numbers under which stores save its variants.
macro_rules! codes {
    ($type:ident { $($variant:ident => $code:literal),+ $(,)? }) => {
        impl $type {
            /// The number under which stores save the variant. Never reuse one.
            pub const fn code(self) -> i16 {
                match self { $(Self::$variant => $code),+ }
            }

            /// Finds the variant that stores save under this number.
            pub const fn from_code(code: i16) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::nonce::{Mode, SubmitterStatus};
    use crate::port::{AttemptKind, ReservationState, WaitKind};

    /// Databases hold these numbers, and callers these names.
    #[test]
    fn codes_and_names_of_stored_enums_stay_the_same() {
        assert_eq!(Mode::ALL.map(|it| (it.code(), it.name())), [(1, "pipelined"), (2, "strict")]);
        let status = SubmitterStatus::ALL.map(|it| (it.code(), it.name()));
        assert_eq!(status, [(1, "ACTIVE"), (2, "PAUSED"), (3, "PROTECT")]);
        assert_eq!(AttemptKind::ALL.map(AttemptKind::code), [1, 2, 3, 4, 5]);
        assert_eq!(ReservationState::ALL.map(ReservationState::code), [1, 2, 3]);
        let waits = [WaitKind::Hole, WaitKind::Unexplained, WaitKind::UnsentReservation];
        assert_eq!([1, 2, 3].map(WaitKind::from_code), waits.map(Some));
        assert_eq!([0, 4].map(WaitKind::from_code), [None; 2]);
        for mode in Mode::ALL {
            assert_eq!(Mode::from_code(mode.code()), Some(mode));
            assert_eq!(Mode::from_name(mode.name()), Some(mode));
        }
    }
}
