//! Commands of operators, policies and callers that reserve nonces. Owns the questions to the
//! stuck policy.

mod actions;
mod attempts;
mod fill;
mod lost_slots;
mod reservations;
mod status;
mod stuck_policy;

use tokio::sync::oneshot;
use tollgate_model::nonce::Mode;
use tollgate_model::port::CursorMove;
use tollgate_model::refusal::OpenCosts;
use tollgate_model::stuck::{Forbidden, Trigger};
use tollgate_model::{Nonce, Text, Timestamp, TxId};

use super::Stop;
use super::intake::{Intake, Quotes};
use super::session::Session;
use super::upkeep::Upkeep;
use crate::act::{ActError, Acted, Action, Fill, Filled, ModeChanged, PauseOutcome, Reconciled};
use crate::errors::Unserved;
use crate::reserve::{ReservationCommand, ReserveError};
pub(super) use actions::{ActionOrigin, carry_out_action, send_attempt};
pub(super) use attempts::{ceiling, sign_bump};
use stuck_policy::StuckQuestions;

pub(crate) type Reply<T, E = ActError> = oneshot::Sender<Result<T, E>>;

/// A command for a worker.
pub(crate) enum Command {
    Act {
        tx_id: TxId,
        action: Action,
        reason: Text<500>,
        reply: Reply<Acted>,
    },
    Pause {
        reason: Text<500>,
        reply: Reply<PauseOutcome>,
    },
    Resume {
        reason: Text<500>,
        reply: Reply<PauseOutcome>,
    },
    ChangeMode {
        to: Mode,
        reason: Text<500>,
        reply: Reply<ModeChanged>,
    },
    Reconcile {
        reply: Reply<Reconciled>,
    },
    Fill {
        fill: Fill,
        reason: Text<500>,
        reply: Reply<Filled>,
    },
    Advance {
        to: Nonce,
        reason: Text<500>,
        reply: Reply<CursorMove>,
    },
    Reservation(ReservationCommand),
    /// Sums the costs of the submitter's open transactions; `None` if they can't be priced now.
    OpenCosts {
        reply: Reply<Option<OpenCosts>>,
    },
}

impl Command {
    /// Answers without doing anything. The caller may have gone meanwhile.
    pub(super) fn refuse(self, why: Unserved) {
        match self {
            Self::Act { reply, .. } => drop(reply.send(Err(why.into()))),
            Self::Pause { reply, .. } | Self::Resume { reply, .. } => {
                drop(reply.send(Err(why.into())));
            }
            Self::ChangeMode { reply, .. } => drop(reply.send(Err(why.into()))),
            Self::Reconcile { reply } => drop(reply.send(Err(why.into()))),
            Self::Fill { reply, .. } => drop(reply.send(Err(why.into()))),
            Self::Advance { reply, .. } => drop(reply.send(Err(why.into()))),
            Self::Reservation(command) => command.refuse(why),
            Self::OpenCosts { reply } => drop(reply.send(Err(why.into()))),
        }
    }
}

/// The reason why nothing was done: the worker can't go on, or the command is not possible.
pub(super) enum ActionFailure<E = ActError> {
    Stop(Stop),
    Refused(E),
}

impl<E> From<Stop> for ActionFailure<E> {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

macro_rules! refused_for {
    ($($why:ty => $error:ty),*) => {
        $(
            impl From<$why> for ActionFailure<$error> {
                fn from(why: $why) -> Self {
                    Self::Refused(why.into())
                }
            }
        )*
    };
}

refused_for!(
    ActError => ActError, Unserved => ActError, Forbidden => ActError,
    ReserveError => ReserveError, Unserved => ReserveError
);

/// The part of a worker that carries out commands.
pub(super) struct Commands {
    questions: StuckQuestions,
}

impl Commands {
    pub(super) fn from(now: Timestamp) -> Self {
        Self { questions: StuckQuestions::from(now) }
    }

    pub(super) const fn is_policy_asked(&self) -> bool {
        self.questions.is_open()
    }

    /// Has the policy asked about a transaction, once.
    pub(super) fn ask_later(&mut self, tx_id: TxId, trigger: Trigger) {
        self.questions.add(tx_id, trigger);
    }

    /// Asks the policy if the line, a mark or an operator calls for it.
    pub(super) fn ask_about_head(&mut self, session: &mut Session) {
        self.questions.ask_about_head(session);
    }

    /// Carries a command out and answers it. Only what stops the worker is an error here.
    pub(super) async fn carry_out(
        &mut self,
        session: &mut Session,
        intake: &mut Intake,
        upkeep: &mut Upkeep,
        command: Command,
    ) -> Result<(), Stop> {
        match command {
            Command::Act { tx_id, action, reason, reply } => {
                answer(reply, self.act(session, tx_id, action, &reason).await)
            }
            Command::Pause { reason, reply } => {
                answer(reply, status::pause(session, &reason).await)
            }
            Command::Resume { reason, reply } => {
                answer(reply, status::resume(session, &reason).await)
            }
            Command::ChangeMode { to, reason, reply } => {
                answer(reply, status::change_mode(session, to, &reason).await)
            }
            Command::Reconcile { reply } => {
                answer(reply, upkeep.reconcile_now(session, intake).await)
            }
            Command::Fill { fill, reason, reply } => {
                answer(reply, fill::return_nonces(session, fill, &reason).await)
            }
            Command::Advance { to, reason, reply } => {
                answer(reply, fill::advance_cursor(session, to, &reason).await)
            }
            Command::Reservation(ReservationCommand { ask, reply }) => {
                answer(reply, reservations::carry_out(session, ask).await)
            }
            Command::OpenCosts { reply } => {
                let costs = intake.funds.open_costs(session, &mut Quotes::default()).await;
                answer(reply, Ok(costs))
            }
        }
    }
}

/// Answers a caller, who may have gone meanwhile, and stops the worker if it has to.
fn answer<T, E: From<Unserved>>(
    reply: Reply<T, E>,
    done: Result<T, ActionFailure<E>>,
) -> Result<(), Stop> {
    let (answer, stop) = match done {
        Ok(done) => (Ok(done), Ok(())),
        Err(ActionFailure::Refused(why)) => (Err(why), Ok(())),
        Err(ActionFailure::Stop(stop)) => (Err(stop.answer().into()), Err(stop)),
    };
    let _ = reply.send(answer);
    stop
}
