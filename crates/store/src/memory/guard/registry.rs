//! The agent registry, in memory.

use super::MemoryGuard;
use crate::{
    AGENTS_MAX, About, Answer, By, CARDS_KEPT, CardStanding, ChangeError, Enlisted, KeptCard, Notice, Noticed, Record,
    Registry, StoreError,
};
use sabir_proto::AgentName;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Kept {
    generation: u64,
    agents: BTreeMap<String, Enlisted>,
    cards: BTreeMap<String, Vec<KeptCard>>,
}

impl Kept {
    fn notice(&mut self, card: Noticed) -> Notice {
        let cards = self.cards.entry(card.agent.to_string()).or_default();
        let same = |kept: &&KeptCard| kept.seen.digest == card.digest && kept.seen.pin.signer == card.pin.signer;
        let found = cards.iter().find(|kept| kept.seen.standing != CardStanding::Past && same(kept));
        let found = found.map(|kept| kept.seen.standing);
        if found == Some(CardStanding::Held) && card.standing == CardStanding::Held {
            return Notice::StillHeld;
        }
        self.generation += 1;
        let is_known = found == Some(CardStanding::Used);
        for kept in &mut *cards {
            let ends = match kept.seen.standing {
                CardStanding::Held => true,
                CardStanding::Used => !is_known && card.standing == CardStanding::Used,
                CardStanding::Past => false,
            };
            if ends {
                kept.seen.standing = CardStanding::Past;
            }
        }
        if is_known {
            return Notice::Known;
        }
        let number = cards.last().map_or(0, |kept| kept.number) + 1;
        cards.push(KeptCard { number, seen: card });
        cards.retain(|kept| kept.seen.standing != CardStanding::Past || kept.number + CARDS_KEPT as u64 > number);
        Notice::New(number)
    }
}

impl Registry for MemoryGuard {
    fn generation(&self) -> Result<u64, StoreError> {
        Ok(self.lock().registry.generation)
    }

    fn enlist(&self, agent: Enlisted, card: Option<Noticed>, by: By) -> Answer<(), ChangeError> {
        let mut inner = self.lock();
        let name = agent.name.clone();
        if inner.registry.agents.contains_key(name.as_str()) {
            return Answer::now(Err(ChangeError::AgentTaken(name)));
        }
        if inner.registry.agents.len() >= AGENTS_MAX {
            return Answer::now(Err(ChangeError::TooMany { what: "agents", max: AGENTS_MAX }));
        }
        inner.record(&Record::change(&by, "agent.add", Some(About::Agent(name.clone()))));
        inner.registry.generation += 1;
        inner.registry.cards.remove(name.as_str());
        inner.registry.agents.insert(name.to_string(), agent);
        if let Some(card) = card {
            inner.registry.notice(card);
        }
        Answer::now(Ok(()))
    }

    fn enlisted(&self) -> Answer<Vec<Enlisted>> {
        Answer::now(Ok(self.lock().registry.agents.values().cloned().collect()))
    }

    fn enable(&self, name: AgentName, enabled: bool, by: By) -> Answer<Enlisted, ChangeError> {
        let mut inner = self.lock();
        let Some(agent) = inner.registry.agents.get_mut(name.as_str()) else {
            return Answer::now(Err(ChangeError::NoSuchAgent(name)));
        };
        let (changed, agent) = (std::mem::replace(&mut agent.enabled, enabled) != enabled, agent.clone());
        if changed {
            inner.registry.generation += 1;
            let operation = if enabled { "agent.enable" } else { "agent.disable" };
            inner.record(&Record::change(&by, operation, Some(About::Agent(name))));
        }
        Answer::now(Ok(agent))
    }

    fn delist(&self, name: AgentName, by: By) -> Answer<Enlisted, ChangeError> {
        let mut inner = self.lock();
        let Some(agent) = inner.registry.agents.remove(name.as_str()) else {
            return Answer::now(Err(ChangeError::NoSuchAgent(name)));
        };
        inner.registry.generation += 1;
        inner.registry.cards.remove(name.as_str());
        inner.record(&Record::change(&by, "agent.remove", Some(About::Agent(name))));
        Answer::now(Ok(agent))
    }

    fn notice(&self, card: Noticed) -> Answer<Notice> {
        Answer::now(Ok(self.lock().registry.notice(card)))
    }

    fn cards(&self, name: AgentName) -> Answer<Vec<KeptCard>> {
        Answer::now(Ok(self.lock().registry.cards.get(name.as_str()).cloned().unwrap_or_default()))
    }

    fn used_cards(&self) -> Answer<Vec<KeptCard>> {
        let inner = self.lock();
        let all = inner.registry.cards.values().flatten();
        Answer::now(Ok(all.filter(|kept| kept.seen.standing == CardStanding::Used).cloned().collect()))
    }

    fn approve(&self, name: AgentName, by: By) -> Answer<Option<KeptCard>, ChangeError> {
        let mut inner = self.lock();
        let cards = inner.registry.cards.get_mut(name.as_str());
        let is_held = |kept: &KeptCard| kept.seen.standing == CardStanding::Held;
        let Some(cards) = cards.filter(|cards| cards.iter().any(is_held)) else { return Answer::now(Ok(None)) };
        let mut approved = None;
        for kept in cards {
            match kept.seen.standing {
                CardStanding::Held => {
                    kept.seen.standing = CardStanding::Used;
                    approved = Some(kept.clone());
                }
                CardStanding::Used => kept.seen.standing = CardStanding::Past,
                CardStanding::Past => {}
            }
        }
        inner.registry.generation += 1;
        inner.record(&Record::change(&by, "agent.approve", Some(About::Agent(name))));
        Answer::now(Ok(approved))
    }
}
