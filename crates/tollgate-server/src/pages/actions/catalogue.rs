//! The actions of operators: their words, their fields, and the commands that do the same.

/// An action, as its page explains it.
pub(super) struct Action {
    /// The last part of the path, here and in the API.
    pub(super) word: &'static str,
    pub(super) name: &'static str,
    /// The buttons of its page: the one that carries it out, and the one that leads back.
    pub(super) confirm: &'static str,
    pub(super) leave: &'static str,
    pub(super) about: &'static str,
    /// Shown after it was done.
    pub(super) done: &'static str,
    pub(super) is_grave: bool,
    /// The command, without the account or the transaction.
    pub(super) command: &'static str,
    pub(super) takes_reason: bool,
    pub(super) inputs: &'static [Input],
}

/// A field of a form.
pub(super) struct Input {
    /// The field of the API.
    pub(super) name: &'static str,
    /// The flag of the command.
    pub(super) flag: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    /// Values to choose from; none for a text.
    pub(super) choices: &'static [(&'static str, &'static str)],
    pub(super) required: bool,
    /// An amount, with or without its unit.
    pub(super) is_amount: bool,
}

const fn input(
    name: &'static str,
    flag: &'static str,
    label: &'static str,
    hint: &'static str,
) -> Input {
    Input { name, flag, label, hint, choices: &[], required: true, is_amount: false }
}

pub(super) const OF_TX: [Action; 5] = [
    Action {
        word: "resolve",
        name: "Resolve",
        confirm: "Ask the policy",
        leave: "Back",
        about: "Ask the stuck policy about it now. What the policy decides is carried out and stands in the \
                history.",
        done: "The stuck policy is being asked, or what it decided is under way.",
        is_grave: false,
        command: "tollgate tx resolve",
        takes_reason: true,
        inputs: &[],
    },
    Action {
        word: "speed-up",
        name: "Speed up",
        confirm: "Speed up",
        leave: "Back",
        about: "Send another attempt in the same nonce, at a price that replaces the one before and that the \
                market asks now. Never above a cap.",
        done: "A dearer attempt is under way.",
        is_grave: false,
        command: "tollgate tx speed-up",
        takes_reason: true,
        inputs: &[],
    },
    Action {
        word: "resubmit",
        name: "Resubmit",
        confirm: "Send again",
        leave: "Back",
        about: "Send the newest attempt again, unchanged: same nonce, same price, same hash.",
        done: "The newest attempt is being sent again.",
        is_grave: false,
        command: "tollgate tx resubmit",
        takes_reason: true,
        inputs: &[],
    },
    Action {
        word: "replace",
        name: "Replace price",
        confirm: "Replace price",
        leave: "Back",
        about: "Send the same call at a price that you choose, in the same nonce. A price that nodes would \
                refuse as a replacement is refused with the least that they take.",
        done: "The replacement is under way.",
        is_grave: false,
        command: "tollgate tx replace",
        takes_reason: true,
        inputs: &[
            Input {
                is_amount: true,
                ..input(
                    "maxFeePerGas",
                    "max-fee-per-gas",
                    "Maximum price per unit of gas",
                    "like 30gwei, or in wei",
                )
            },
            Input {
                required: false,
                is_amount: true,
                ..input(
                    "maxPriorityFeePerGas",
                    "max-priority-fee-per-gas",
                    "Tip per unit of gas",
                    "like 2gwei; may be left out",
                )
            },
        ],
    },
    Action {
        word: "cancel",
        name: "Cancel",
        confirm: "Cancel transaction",
        leave: "Keep it",
        about: "Without a nonce it ends at once. Otherwise a zero-value transfer to self is sent in its \
                nonce, and whichever of the two is mined decides.",
        done: "It was withdrawn, or its cancellation is under way.",
        is_grave: true,
        command: "tollgate tx cancel",
        takes_reason: true,
        inputs: &[],
    },
];

pub(super) const OF_SUBMITTER: [Action; 6] = [
    Action {
        word: "pause",
        name: "Pause",
        confirm: "Pause account",
        leave: "Back",
        about: "New transactions are accepted and wait without a nonce. What has a nonce goes on to its end.",
        done: "The account is paused.",
        is_grave: true,
        command: "tollgate submitter pause",
        takes_reason: true,
        inputs: &[],
    },
    Action {
        word: "resume",
        name: "Resume",
        confirm: "Resume account",
        leave: "Back",
        about: "Its nonces are compared with the chain first; then what was held gets its nonces.",
        done: "The account takes work again.",
        is_grave: false,
        command: "tollgate submitter resume",
        takes_reason: true,
        inputs: &[],
    },
    Action {
        word: "reconcile",
        name: "Reconcile",
        confirm: "Reconcile now",
        leave: "Back",
        about: "Compare the next nonce and the open slots with the chain now, as it happens by itself every \
                now and then.",
        done: "The account was compared with the chain.",
        is_grave: false,
        command: "tollgate submitter reconcile",
        takes_reason: false,
        inputs: &[],
    },
    Action {
        word: "mode",
        name: "Change mode",
        confirm: "Change mode",
        leave: "Back",
        about: "Only while none of its transactions is open and callers hold none of its nonces.",
        done: "The mode is changed.",
        is_grave: true,
        command: "tollgate submitter mode",
        takes_reason: true,
        inputs: &[Input {
            choices: &[("pipelined", "pipelined"), ("strict", "strict")],
            ..input("mode", "", "Mode", "")
        }],
    },
    Action {
        word: "fill",
        name: "Fill nonces",
        confirm: "Fill nonces",
        leave: "Back",
        about: "For nonces that the chain waits for and nobody has: they are given to the transactions that \
                come next, or closed by zero-value transfers to self.",
        done: "The nonces are free, and being filled.",
        is_grave: true,
        command: "tollgate submitter fill",
        takes_reason: true,
        inputs: &[
            input("first", "first", "First nonce", ""),
            input("last", "last", "Last nonce", ""),
            Input {
                choices: &[
                    ("placeholder", "transfers to self, at once"),
                    ("next", "the next transactions"),
                ],
                ..input("with", "with", "Fill with", "")
            },
        ],
    },
    Action {
        word: "advance",
        name: "Advance",
        confirm: "Advance next nonce",
        leave: "Back",
        about: "Move the next nonce forward to a count that only one endpoint reports. It never moves back.",
        done: "The next nonce was moved.",
        is_grave: true,
        command: "tollgate submitter advance",
        takes_reason: true,
        inputs: &[input("nextNonce", "", "Next nonce", "")],
    },
];
