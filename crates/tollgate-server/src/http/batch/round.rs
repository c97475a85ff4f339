//! Carries the items of a batch out, each where its submitter is owned.

use std::collections::HashMap;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use futures_util::future::{join, join_all};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_api::{ErrorCode, path};
use tollgate_engine::{Destination, PendingCreate, Place, PreparedCreate};
use tollgate_model::{NodeId, Submitter};

use super::{Item, ItemAnswer};
use crate::http::Api;
use crate::http::access::Caller;
use crate::http::create::{answer_to_known, outcome, prepare};
use crate::http::forward::{FORWARDED, NextStep, code_of, next_step};
use crate::http::middleware::{trace_id, traceparent};
use crate::http::peers::Unanswered;
use crate::http::problem::Problem;

/// The rounds of a batch: in each, every item without an answer that stands is tried once.
pub(super) struct Rounds<'a> {
    api: &'a Api,
    caller: &'a Caller,
    headers: &'a HeaderMap,
    pub(super) items: Vec<Item<'a>>,
    /// The node that was asked for each submitter in the round before.
    asked: HashMap<Submitter, NodeId>,
}

/// An answer to the item at a place.
struct Answered {
    place: usize,
    answer: ItemAnswer,
    /// No other node would give a better one.
    stands: bool,
    forwarded: bool,
}

/// The items of one other node, by their places in the batch.
struct ForwardGroup {
    to: Destination,
    places: Vec<usize>,
}

/// The places of open items, by where they are to be carried out.
#[derive(Default)]
struct Placement {
    here: Vec<usize>,
    at_others: Vec<ForwardGroup>,
    /// This node is shutting down, and there is no other.
    nowhere: Vec<usize>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(
        api: &'a Api,
        caller: &'a Caller,
        headers: &'a HeaderMap,
        items: Vec<Item<'a>>,
    ) -> Self {
        Self { api, caller, headers, items, asked: HashMap::new() }
    }

    /// Tries each open item where its submitter is owned.
    pub(super) async fn run_one(&mut self) {
        let Placement { here, mut at_others, nowhere } = self.place().await;
        self.answer_repeats(&mut at_others, nowhere).await;
        let local = self.create_here(&here);
        let remote = join_all(at_others.iter().map(|group| self.forward(group)));
        let (local, remote) = join(local, remote).await;
        let own = self.api.engine.own_url().map(|url| url.as_str().to_owned());
        for answered in local {
            self.record(answered, own.as_deref());
        }
        for (group, answers) in at_others.iter().zip(remote) {
            for answered in answers {
                let other = Some(group.to.url.as_str());
                let by = if answered.forwarded { other } else { own.as_deref() };
                self.record(answered, by);
            }
        }
    }

    /// Answers items that were accepted before, at any node (I7), and takes them out of the groups. New
    /// ones that belong nowhere are refused.
    async fn answer_repeats(&mut self, at_others: &mut Vec<ForwardGroup>, nowhere: Vec<usize>) {
        let mut places = nowhere.clone();
        places.extend(at_others.iter().flat_map(|group| &group.places));
        let look_up = |place: usize| {
            let (api, caller, open) = (self.api, self.caller, self.items[place].open.as_ref());
            async move { Some((place, answer_to_known(api, caller, open?).await?)) }
        };
        let known = join_all(places.into_iter().map(look_up)).await;
        for (place, answer) in known.into_iter().flatten() {
            let answer = self.own_answer(answer.map(|tx| (StatusCode::OK, tx)));
            let item = &mut self.items[place];
            (item.answer, item.open) = (Some(answer), None);
        }
        for place in nowhere {
            if self.items[place].open.take().is_some() {
                self.items[place].answer = Some(self.own_answer(Err(Problem::draining())));
            }
        }
        for group in at_others.iter_mut() {
            group.places.retain(|place| self.items[*place].open.is_some());
        }
        at_others.retain(|group| !group.places.is_empty());
    }

    fn own_answer(&self, answer: Result<(StatusCode, tollgate_api::Tx), Problem>) -> ItemAnswer {
        ItemAnswer::own(answer, trace_id(self.headers))
    }

    fn record(&mut self, answered: Answered, by: Option<&str>) {
        let Answered { place, answer, stands, forwarded } = answered;
        let item = &mut self.items[place];
        (item.answer, item.forwarded) = (Some(answer), item.forwarded | forwarded);
        item.owner = by.filter(|_| stands).map(str::to_owned);
        match &item.open {
            Some(request) if !stands => self.api.engine.misplaced(request.submitter),
            Some(_) | None => item.open = None,
        }
    }

    /// Groups the open items by the node that carries them out.
    async fn place(&mut self) -> Placement {
        let mut placement = Placement::default();
        let mut known: HashMap<Submitter, Place> = HashMap::new();
        for (number, item) in self.items.iter_mut().enumerate() {
            let Some(of) = item.open.as_ref().map(|request| request.submitter) else { continue };
            let place = match known.get(&of).cloned() {
                Some(place) => place,
                None if self.headers.contains_key(FORWARDED) => Place::Here,
                // Whether the database can be asked, the local way finds out for each item.
                None => self.api.engine.place(of).await.unwrap_or(Place::Here),
            };
            known.insert(of, place.clone());
            match place {
                Place::There(to) if self.asked.get(&of) == Some(&to.node) => {
                    // It would answer the same again, or this node can't do it instead.
                    if to.owns || !self.api.engine.serves(of) {
                        item.open = None;
                    } else {
                        placement.here.push(number);
                    }
                }
                Place::There(to) => {
                    let groups = &mut placement.at_others;
                    match groups.iter_mut().find(|group| group.to.node == to.node) {
                        Some(group) => group.places.push(number),
                        None => groups.push(ForwardGroup { to, places: vec![number] }),
                    }
                }
                Place::Here => placement.here.push(number),
                Place::Nowhere => placement.nowhere.push(number),
            }
        }
        let asked = known.into_iter().filter_map(|(of, place)| match place {
            Place::There(to) => Some((of, to.node)),
            Place::Here | Place::Nowhere => None,
        });
        self.asked = asked.collect();
        placement
    }

    /// Creates items at this node. They are prepared side by side and queued in the order of the
    /// batch, so that an account's nonces follow it and the first of two equal request ids wins.
    async fn create_here(&self, places: &[usize]) -> Vec<Answered> {
        let prepared = join_all(places.iter().map(|place| self.prepare(*place))).await;
        let pending = prepared
            .into_iter()
            .map(|prepared| prepared.map(|(of, prepared)| (of, self.api.engine.submit(prepared))));
        let pending: Vec<Result<(Submitter, PendingCreate), Problem>> = pending.collect();
        let answered = places.iter().zip(pending).map(|(place, pending)| async {
            let answer = match pending {
                Ok((of, pending)) => outcome(self.api, self.caller, of, pending).await,
                Err(problem) => Err(problem),
            };
            let stands = !matches!(&answer, Err(problem) if problem.code == ErrorCode::NotOwner);
            let answer = self.own_answer(answer);
            Answered { place: *place, answer, stands, forwarded: false }
        });
        join_all(answered).await
    }

    async fn prepare(&self, place: usize) -> Result<(Submitter, PreparedCreate), Problem> {
        let request = self.items[place].open.clone().ok_or_else(Problem::defect)?;
        let (of, request) = (request.submitter, request.named_for(self.caller.tenant())?);
        let trace = traceparent(self.headers);
        Ok((of, prepare(self.api, self.caller, request, trace).await?))
    }

    /// Creates items of a node that was not reached, for the accounts that this node serves.
    async fn create_instead_of(&self, to: &Destination, places: &[usize]) -> Vec<Answered> {
        let is_served = |place: &usize| {
            let of = self.items[*place].open.as_ref().map(|request| request.submitter);
            of.is_some_and(|of| self.api.engine.serves(of))
        };
        let (here, nowhere): (Vec<usize>, Vec<usize>) = places.iter().partition(|it| is_served(it));
        let mut answers = self.create_here(&here).await;
        answers.extend(nowhere.into_iter().map(|place| {
            let answer = self.own_answer(Err(Problem::owner_unreached(&to.url)));
            Answered { place, answer, stands: false, forwarded: false }
        }));
        answers
    }

    /// Forwards items to another node.
    async fn forward(&self, group: &ForwardGroup) -> Vec<Answered> {
        #[derive(Serialize)]
        struct Sent<'a> {
            items: Vec<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Received {
            items: Vec<Box<RawValue>>,
        }
        let ForwardGroup { to, places } = group;
        let sent = Sent { items: places.iter().map(|place| &*self.items[*place].text).collect() };
        // Text that was JSON before.
        let body = Bytes::from(serde_json::to_vec(&sent).unwrap_or_default());
        let Api { engine, peers, .. } = self.api;
        let posted = match peers.forward(engine, to, path::BATCH, self.headers, body).await {
            Ok(posted) => posted,
            Err(Unanswered::NotSent(_)) => return self.create_instead_of(to, places).await,
            Err(Unanswered::Full) => {
                return self.answer_all(places, &Problem::too_many_forwarded(), true);
            }
            Err(Unanswered::NoAnswer(why)) => {
                return self.answer_all(places, &Problem::no_answer_from_owner(why), true);
            }
        };
        let received = serde_json::from_slice::<Received>(&posted.body).ok();
        match received.filter(|received| received.items.len() == places.len()) {
            Some(received) => self.judge_answers(group, received.items).await,
            // Refused as a whole, before anything was done.
            None if next_step(code_of(&posted), to) == NextStep::FindOwner => {
                let detail = format!("{} does not own the submitter any more", to.url);
                self.answer_all(places, &Problem::new(ErrorCode::NotOwner, detail), false)
            }
            None => {
                let why = format!("{} answered with {}", to.url, posted.status);
                self.answer_all(places, &Problem::no_answer_from_owner(why), true)
            }
        }
    }

    /// Takes another node's answers over; items that it left to this node are created at once, because
    /// the next round may be over, or lead to another node without the key.
    async fn judge_answers(
        &self,
        group: &ForwardGroup,
        answers: Vec<Box<RawValue>>,
    ) -> Vec<Answered> {
        let (mut answered, mut left) = (Vec::new(), Vec::new());
        for (place, text) in group.places.iter().copied().zip(answers) {
            let answer = ItemAnswer::Forwarded(text);
            let next = next_step(answer.code(), &group.to);
            if next == NextStep::RunHere {
                left.push(place);
            } else {
                let stands = next == NextStep::Answer;
                answered.push(Answered { place, answer, stands, forwarded: true });
            }
        }
        answered.extend(self.create_here(&left).await);
        answered
    }

    /// The same problem as the answer to each of these items.
    fn answer_all(&self, places: &[usize], problem: &Problem, stands: bool) -> Vec<Answered> {
        let answer = |place: &usize| Answered {
            place: *place,
            answer: self.own_answer(Err(problem.clone())),
            stands,
            forwarded: true,
        };
        places.iter().map(answer).collect()
    }
}
