//! Which agent fits a message: the only place that decides.

use crate::config::dispatch::DispatchConfig;
use crate::directory::peers::PeerAgent;
use sabir_engine::Failure;
use sabir_proto::AgentName;
use sabir_store::RankingMatch;

/// The score of a skill that the message names: more than any number of matching words.
const SKILL_SCORE: f64 = 1000.0;

/// The agents that may be chosen.
#[derive(Debug)]
pub(crate) struct DispatchCandidates(Vec<PeerAgent>);

/// The result of the ranking.
#[derive(Debug, PartialEq)]
pub(crate) enum DispatchVerdict {
    Sure { agent: AgentName, fits: Vec<RankingMatch> },
    Unsure { agents: Vec<AgentName>, fits: Vec<RankingMatch> },
    NoAgent { fits: Vec<RankingMatch> },
}

impl DispatchCandidates {
    /// Filters all agents: the named ones, or else all without authentication rules of their own.
    pub(crate) fn new(all: Vec<PeerAgent>, own: Option<&AgentName>, named: &[AgentName]) -> Self {
        let may = |peer: &PeerAgent| if named.is_empty() { !peer.guarded } else { named.contains(&peer.name) };
        Self(all.into_iter().filter(|peer| Some(&peer.name) != own && may(peer)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn find(&self, name: &AgentName) -> Option<&PeerAgent> {
        self.0.iter().find(|peer| peer.name == *name)
    }

    /// The names of the first candidates, in the order of the directory.
    pub(super) fn first(&self, most: usize) -> Vec<AgentName> {
        self.0.iter().take(most).map(|peer| peer.name.clone()).collect()
    }

    /// The scores of the candidates for a text, best first.
    pub(crate) fn rank(&self, skill: Option<&str>, text: &str) -> Result<Vec<RankingMatch>, Failure> {
        let described: Vec<_> = self.0.iter().map(PeerAgent::search_document).collect();
        let mut fits = sabir_store::rank(text, &described)?;
        let has = |peer: &&PeerAgent| skill.is_some_and(|skill| peer.skills.iter().any(|one| one.id == skill));
        for peer in self.0.iter().filter(has) {
            let key = peer.name.to_string();
            match fits.iter_mut().find(|fit| fit.key == key) {
                Some(fit) => {
                    fit.score += SKILL_SCORE;
                    fit.field_scores.insert(0, ("skill", SKILL_SCORE));
                }
                None => fits.push(RankingMatch { key, score: SKILL_SCORE, field_scores: vec![("skill", SKILL_SCORE)] }),
            }
        }
        fits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(&b.key)));
        Ok(fits)
    }

    /// Decides whether one, several or no agent fits a message.
    pub(crate) fn choose(
        &self,
        skill: Option<&str>,
        text: &str,
        config: &DispatchConfig,
    ) -> Result<DispatchVerdict, Failure> {
        let fits = self.rank(skill, text)?;
        let good: Vec<&RankingMatch> = fits.iter().filter(|fit| fit.score >= config.score_min).collect();
        let Some(best) = good.first() else { return Ok(DispatchVerdict::NoAgent { fits }) };
        let near = good.iter().filter(|fit| fit.score >= best.score * config.near).take(config.choices_max);
        let mut near: Vec<AgentName> = near.filter_map(|fit| AgentName::parse(&fit.key).ok()).collect();
        Ok(match near.len() {
            0 => DispatchVerdict::NoAgent { fits },
            1 => DispatchVerdict::Sure { agent: near.remove(0), fits },
            _ => DispatchVerdict::Unsure { agents: near, fits },
        })
    }
}

/// The agent that an answer means: by number, by name, or by a name that it contains.
pub(super) fn read_choice(answer: &str, asked: &[AgentName]) -> Option<AgentName> {
    let answer = answer.trim().trim_start_matches('@').trim_end_matches(['.', '!', ')']);
    if let Ok(number) = answer.parse::<usize>() {
        return number.checked_sub(1).and_then(|at| asked.get(at)).cloned();
    }
    if let Some(named) = asked.iter().find(|name| name.as_str().eq_ignore_ascii_case(answer)) {
        return Some(named.clone());
    }
    let word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let words: Vec<String> = answer.split(|c: char| !word(c)).map(str::to_ascii_lowercase).collect();
    let mut meant = asked.iter().filter(|name| words.contains(&name.as_str().to_ascii_lowercase()));
    // An answer that contains two names chooses neither.
    meant.next().filter(|_| meant.next().is_none()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_one_by_number_or_name() {
        let asked: Vec<_> = ["ledger", "travel-desk"].iter().map(|n| AgentName::parse(n).unwrap()).collect();
        for (answer, chosen) in [
            ("1", Some("ledger")),
            (" 2. ", Some("travel-desk")),
            ("Ledger", Some("ledger")),
            ("@travel-desk", Some("travel-desk")),
            ("the ledger, please", Some("ledger")),
            ("ledger or travel-desk", None),
            ("0", None),
            ("3", None),
            ("neither", None),
            ("", None),
        ] {
            assert_eq!(read_choice(answer, &asked).as_ref().map(AgentName::as_str), chosen, "{answer}");
        }
    }
}
