//! Whole lives of one slot under all rules together: a small worker that asks them at each tick, in
//! the order of `docs/decisions.md`, while nodes, the chain and a policy do what they like.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_model::answer::{AnswerClass, AnsweredTx, action_for, event_for, may_be_with_a_node};
use tollgate_model::expiry::{self, ExpiryView};
use tollgate_model::nonce::Mode;
use tollgate_model::port::AttemptKind;
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::policy::StuckAction;
use tollgate_model::rejected::{self, RejectedDecision, RejectedSlot, RejectedView};
use tollgate_model::resubmit::{
    self, ResubmitDecision, ResubmitRules, ResubmitView, renews_patience,
};
use tollgate_model::stuck::{Plan, Subject, plan};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{Allocated, Nonce, Route, Timestamp, TxEvent, TxId, TxState, transition};
use uuid::Uuid;

/// Events from outside.
#[derive(Clone, Copy, Debug)]
enum Step {
    Tick(u64),
    Answer(AnswerClass),
    LoseAnswer,
    Policy(StuckAction),
    Mined,
    Orphaned,
    Finalised,
    TakeOver,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1u64..400).prop_map(Step::Tick),
        6 => prop::sample::select(AnswerClass::ALL.to_vec()).prop_map(Step::Answer),
        2 => Just(Step::LoseAnswer),
        2 => prop::sample::select(StuckAction::ALL.to_vec()).prop_map(Step::Policy),
        1 => Just(Step::Mined),
        1 => Just(Step::Orphaned),
        1 => Just(Step::Finalised),
        1 => Just(Step::TakeOver),
    ]
}

/// One transaction with a slot, as a worker remembers it.
struct Life {
    state: TxState,
    now: Timestamp,
    since: Timestamp,
    sent_at: Timestamp,
    resends: u32,
    answers: Option<Vec<AnswerClass>>,
    /// True if a node can have had it; no rule knows this.
    maybe_somewhere: bool,
    closing: bool,
    decided_at: Option<Timestamp>,
    marked_stuck: Vec<Timestamp>,
}

impl Life {
    fn new() -> Self {
        Self {
            state: TxState::Allocated(Allocated::Unsent),
            now: Timestamp::EPOCH,
            since: Timestamp::EPOCH,
            sent_at: Timestamp::EPOCH,
            resends: 0,
            answers: Some(Vec::new()),
            maybe_somewhere: false,
            closing: false,
            decided_at: None,
            marked_stuck: Vec::new(),
        }
    }

    /// Every move is one that the machine has: a rule that says otherwise fails here.
    fn moved(&mut self, event: TxEvent) {
        if renews_patience(self.state, event) {
            (self.since, self.resends) = (self.now, 0);
        }
        if matches!(event, TxEvent::GaveUp(_)) && !matches!(self.state, TxState::Stuck(_)) {
            self.marked_stuck.push(self.now);
        }
        self.state = transition(self.state, event).unwrap();
    }

    /// Moves if the machine allows it: for what comes from outside.
    fn may_move(&mut self, event: TxEvent) {
        if transition(self.state, event).is_ok() {
            self.moved(event);
        }
    }

    fn answered(&mut self, class: AnswerClass) {
        self.maybe_somewhere |= may_be_with_a_node(class);
        if let Some(answers) = &mut self.answers {
            answers.push(class);
        }
        let is_news = class == AnswerClass::Accepted;
        let (state, doubted) = (self.state, self.answers.is_none());
        let tx = AnsweredTx { state, attempts: 1, doubted, is_news };
        if let Some(event) = event_for(action_for(class), &tx) {
            self.may_move(event);
        }
    }

    fn lost(&mut self) {
        self.maybe_somewhere = true;
        self.answers = None;
        self.may_move(TxEvent::AnswerUnclear);
    }

    fn decided(&mut self, action: StuckAction) {
        let subject = Subject {
            state: self.state,
            has_key: true,
            signed_by_caller: false,
            payload_may_change: false,
            closing: self.closing,
        };
        let event = match plan(action, false, &subject) {
            Err(_) | Ok(Plan::Alert) => return,
            Ok(Plan::Resend { event }) => event,
            Ok(Plan::Sign { event, kind }) => {
                self.closing |=
                    matches!(kind, AttemptKind::Cancellation | AttemptKind::Placeholder);
                event
            }
        };
        self.decided_at = Some(self.now);
        self.sent_at = self.now;
        match event {
            Some(event) => self.moved(event),
            None => (self.since, self.resends) = (self.now, 0),
        }
    }

    fn tick(&mut self, seconds: u64, policy: RejectedSlot, deadline: Option<Timestamp>) {
        self.now = self.now.after(Duration::from_secs(seconds));
        let view = ExpiryView {
            state: self.state,
            valid_until: deadline,
            closing: self.closing,
            decided_at: self.decided_at,
        };
        if let Some(event) = expiry::decide(&view, self.now).event() {
            self.moved(event);
        }
        let nonce = Nonce::MIN;
        let answers = self.answers.clone();
        let view = RejectedView {
            state: self.state,
            nonce,
            mode: Mode::Pipelined,
            answers: answers.as_deref(),
            counts: Some(AccountCounts::confirmed(nonce, nonce)),
            receipts_looked_for: true,
            higher_open: false,
            next_waits: true,
            has_key: true,
            closing: self.closing,
            is_private: false,
        };
        match rejected::decide(policy, &view) {
            RejectedDecision::Recycle => return self.moved(TxEvent::SlotRecycled),
            RejectedDecision::Placeholder => self.decided(StuckAction::Placeholder),
            RejectedDecision::Hold(_)
            | RejectedDecision::FindReceipts
            | RejectedDecision::Leave => {}
        }
        self.resubmit();
    }

    fn resubmit(&mut self) {
        let view = ResubmitView {
            tx_id: TxId::from_uuid(Uuid::nil()),
            route: Route::Public,
            fell_back: false,
            state: self.state,
            is_head: true,
            since: self.since,
            resends: self.resends,
            sent_at: self.sent_at,
            last_answer: self.answers.as_ref().and_then(|all| all.last().copied()),
            hindered_by: None,
            hold_may_be_over: false,
            hindrance_is_over: false,
        };
        match resubmit::decide(&rules(), &view, self.now) {
            ResubmitDecision::AskPolicy(reason) => self.moved(TxEvent::GaveUp(reason)),
            ResubmitDecision::Resend => {
                self.resends += 1;
                self.sent_at = self.now;
                if matches!(self.state, TxState::Tracking(_)) {
                    self.moved(TxEvent::Resent);
                }
            }
            ResubmitDecision::Wait { .. } | ResubmitDecision::Leave => {}
        }
    }
}

fn rules() -> ResubmitRules {
    let timeout = Some(Duration::from_secs(1_800));
    ResubmitRules { max_attempts: 4, timeout, ..ResubmitRules::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_slot_is_closed_by_evidence_or_freed_by_proof_and_by_nothing_else(
        policy in prop::sample::select(RejectedSlot::ALL.to_vec()),
        deadline in proptest::option::of(1u64..3_000),
        steps in prop::collection::vec(any_step(), 1..150),
    ) {
        let deadline = deadline.map(|after| Timestamp::EPOCH.after(Duration::from_secs(after)));
        let mut life = Life::new();
        for step in steps {
            if life.state.is_final() {
                break;
            }
            let by_evidence = matches!(step, Step::Finalised);
            match step {
                Step::Tick(seconds) => life.tick(seconds, policy, deadline),
                Step::Answer(class) => life.answered(class),
                Step::LoseAnswer => life.lost(),
                Step::Policy(action) => life.decided(action),
                Step::Mined => life.may_move(TxEvent::Mined),
                Step::Orphaned => life.may_move(TxEvent::Orphaned),
                Step::Finalised => life.may_move(TxEvent::Finalised(FinalOutcome::Executed)),
                Step::TakeOver => {
                    life.lost();
                    (life.since, life.sent_at) = (life.now, life.now);
                }
            }
            if life.state.is_final() && !by_evidence {
                prop_assert!(!life.maybe_somewhere && !life.closing, "freed without proof");
                prop_assert_eq!(policy, RejectedSlot::Recycle);
            }
            prop_assert!(life.state.is_final() || life.state.holds_open_slot());
        }
        // Nobody is woken twice in a breath: patience starts anew after each act.
        let apart = |pair: &[Timestamp]| pair[1].since(pair[0]) >= rules().interval;
        prop_assert!(
            deadline.is_some() || life.marked_stuck.windows(2).all(apart),
            "{:?}", life.marked_stuck
        );
    }
}
