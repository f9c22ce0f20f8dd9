//! The agent registry, in memory.

use super::MemoryGuard;
use crate::{
    AGENTS_MAX, AgentRegistry, AuditActor, AuditRecord, AuditSubject, CARDS_KEPT, CardChange, CardObservation,
    CardState, ChangeError, RegisteredAgent, StoreError, StoreFuture, StoredCard,
};
use sabir_proto::AgentName;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct RegistryState {
    generation: u64,
    agents: BTreeMap<String, RegisteredAgent>,
    cards: BTreeMap<String, Vec<StoredCard>>,
}

impl RegistryState {
    fn observe_card(&mut self, card: CardObservation) -> CardChange {
        let cards = self.cards.entry(card.agent.to_string()).or_default();
        let same = |kept: &&StoredCard| {
            kept.observation.digest == card.digest && kept.observation.pin.signer == card.pin.signer
        };
        let found = cards.iter().find(|kept| kept.observation.state != CardState::Past && same(kept));
        let found = found.map(|kept| kept.observation.state);
        if found == Some(CardState::Held) && card.state == CardState::Held {
            return CardChange::StillHeld;
        }
        self.generation += 1;
        let is_known = found == Some(CardState::Used);
        for kept in &mut *cards {
            let ends = match kept.observation.state {
                CardState::Held => true,
                CardState::Used => !is_known && card.state == CardState::Used,
                CardState::Past => false,
            };
            if ends {
                kept.observation.state = CardState::Past;
            }
        }
        if is_known {
            return CardChange::Unchanged;
        }
        let number = cards.last().map_or(0, |kept| kept.number) + 1;
        cards.push(StoredCard { number, observation: card });
        cards.retain(|kept| kept.observation.state != CardState::Past || kept.number + CARDS_KEPT as u64 > number);
        CardChange::New(number)
    }
}

impl AgentRegistry for MemoryGuard {
    fn generation(&self) -> Result<u64, StoreError> {
        Ok(self.lock().registry.generation)
    }

    fn register_agent(
        &self,
        agent: RegisteredAgent,
        card: Option<CardObservation>,
        by: AuditActor,
    ) -> StoreFuture<(), ChangeError> {
        let mut inner = self.lock();
        let name = agent.name.clone();
        if inner.registry.agents.contains_key(name.as_str()) {
            return StoreFuture::ready(Err(ChangeError::AgentTaken(name)));
        }
        if inner.registry.agents.len() >= AGENTS_MAX {
            return StoreFuture::ready(Err(ChangeError::TooMany { what: "agents", max: AGENTS_MAX }));
        }
        inner.record(&AuditRecord::change(&by, "agent.add", Some(AuditSubject::Agent(name.clone()))));
        inner.registry.generation += 1;
        inner.registry.cards.remove(name.as_str());
        inner.registry.agents.insert(name.to_string(), agent);
        if let Some(card) = card {
            inner.registry.observe_card(card);
        }
        StoreFuture::ready(Ok(()))
    }

    fn registered_agents(&self) -> StoreFuture<Vec<RegisteredAgent>> {
        StoreFuture::ready(Ok(self.lock().registry.agents.values().cloned().collect()))
    }

    fn enable_agent(
        &self,
        name: AgentName,
        enabled: bool,
        by: AuditActor,
    ) -> StoreFuture<RegisteredAgent, ChangeError> {
        let mut inner = self.lock();
        let Some(agent) = inner.registry.agents.get_mut(name.as_str()) else {
            return StoreFuture::ready(Err(ChangeError::NoSuchAgent(name)));
        };
        let (changed, agent) = (std::mem::replace(&mut agent.enabled, enabled) != enabled, agent.clone());
        if changed {
            inner.registry.generation += 1;
            let operation = if enabled { "agent.enable" } else { "agent.disable" };
            inner.record(&AuditRecord::change(&by, operation, Some(AuditSubject::Agent(name))));
        }
        StoreFuture::ready(Ok(agent))
    }

    fn remove_agent(&self, name: AgentName, by: AuditActor) -> StoreFuture<RegisteredAgent, ChangeError> {
        let mut inner = self.lock();
        let Some(agent) = inner.registry.agents.remove(name.as_str()) else {
            return StoreFuture::ready(Err(ChangeError::NoSuchAgent(name)));
        };
        inner.registry.generation += 1;
        inner.registry.cards.remove(name.as_str());
        inner.record(&AuditRecord::change(&by, "agent.remove", Some(AuditSubject::Agent(name))));
        StoreFuture::ready(Ok(agent))
    }

    fn observe_card(&self, card: CardObservation) -> StoreFuture<CardChange> {
        StoreFuture::ready(Ok(self.lock().registry.observe_card(card)))
    }

    fn cards(&self, name: AgentName) -> StoreFuture<Vec<StoredCard>> {
        StoreFuture::ready(Ok(self.lock().registry.cards.get(name.as_str()).cloned().unwrap_or_default()))
    }

    fn used_cards(&self) -> StoreFuture<Vec<StoredCard>> {
        let inner = self.lock();
        let all = inner.registry.cards.values().flatten();
        StoreFuture::ready(Ok(all.filter(|kept| kept.observation.state == CardState::Used).cloned().collect()))
    }

    fn approve_card(&self, name: AgentName, by: AuditActor) -> StoreFuture<Option<StoredCard>, ChangeError> {
        let mut inner = self.lock();
        let cards = inner.registry.cards.get_mut(name.as_str());
        let is_held = |kept: &StoredCard| kept.observation.state == CardState::Held;
        let Some(cards) = cards.filter(|cards| cards.iter().any(is_held)) else { return StoreFuture::ready(Ok(None)) };
        let mut approved = None;
        for kept in cards {
            match kept.observation.state {
                CardState::Held => {
                    kept.observation.state = CardState::Used;
                    approved = Some(kept.clone());
                }
                CardState::Used => kept.observation.state = CardState::Past,
                CardState::Past => {}
            }
        }
        inner.registry.generation += 1;
        inner.record(&AuditRecord::change(&by, "agent.approve", Some(AuditSubject::Agent(name))));
        StoreFuture::ready(Ok(approved))
    }
}
