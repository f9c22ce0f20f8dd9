//! Decides which form of its card an agent serves: the only place that does.
//!
//! | Path | The request says | The configuration says | Form |
//! |---|---|---|---|
//! | `agent-card.json` | `A2A-Version: 1.x` | | 1.0 |
//! | `agent-card.json` | no version | `legacy_form = "agent-native"` for this agent | agent-native |
//! | `agent-card.json` | no version | `server.card = "1.0"` | 1.0 |
//! | `agent-card.json` | anything else | | hybrid: 1.0 with the members of 0.3 |
//! | `agent.json` | `A2A-Version: 0.1` | | 0.1 |
//! | `agent.json` | another version, known or not | | 0.3 |
//! | `agent.json` | no version, an `X-XPR-*` header | | XPR |
//! | `agent.json` | neither | `legacy_form` for this agent | that one |
//! | `agent.json` | neither | `[agent.xpr]` | XPR |
//! | `agent.json` | neither | neither | older: 0.3 with the members of 0.1 |
//!
//! The first line that fits decides, so contradictory headers have a defined result: a version comes before `X-XPR-*`,
//! and the header `A2A-Version` before the parameter of that name.

use super::WellKnown;
use crate::config::{CardForm, LegacyForm};
use sabir_wire::card::CardSchema;
use sabir_wire::{Dialect, version as versions};

/// The facts of a request for a card.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CardRequest<'a> {
    pub(crate) path: WellKnown,
    /// The version that it names.
    pub(crate) version: Option<&'a str>,
    /// Whether it has `X-XPR-*` headers.
    pub(crate) xpr_headers: bool,
}

/// The configuration of the cards of one agent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CardRules {
    /// `server.card`: the form for requests without a version.
    pub(crate) unversioned: CardForm,
    /// `legacy_form` of the agent.
    pub(crate) legacy: Option<LegacyForm>,
    /// Whether the agent has an account on the XPR network.
    pub(crate) has_account: bool,
    /// Whether the server is in production.
    pub(crate) production: bool,
}

/// The form in which a card is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServedForm {
    /// That of one dialect, or the hybrid.
    Of(CardSchema),
    /// 0.3 with the additional members of 0.1, for clients of 0.1 and 0.2 alike.
    Older,
}

/// The form for a request.
pub(crate) fn choose(request: &CardRequest<'_>, rules: &CardRules) -> ServedForm {
    let named = versions::dialect_of_version(request.version);
    let form = match (request.path, named) {
        (WellKnown::AgentCard, Ok(Some(Dialect::V1))) => CardSchema::V1,
        (WellKnown::AgentCard, Ok(None)) if rules.legacy == Some(LegacyForm::Native) => CardSchema::Native,
        (WellKnown::AgentCard, Ok(None)) if rules.unversioned == CardForm::Pure => CardSchema::V1,
        (WellKnown::AgentCard, _) => CardSchema::Hybrid,
        (WellKnown::Agent, Ok(Some(Dialect::V01))) => CardSchema::V01,
        (WellKnown::Agent, Ok(Some(_)) | Err(_)) => CardSchema::V03,
        (WellKnown::Agent, Ok(None)) if request.xpr_headers => CardSchema::Xpr,
        (WellKnown::Agent, Ok(None)) => match rules.legacy {
            Some(legacy) => legacy.form(),
            None if rules.has_account => CardSchema::Xpr,
            None => return ServedForm::Older,
        },
    };
    ServedForm::Of(form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use WellKnown::{Agent, AgentCard};

    const USUAL: CardRules =
        CardRules { unversioned: CardForm::Hybrid, legacy: None, has_account: false, production: false };

    #[track_caller]
    fn check(path: WellKnown, version: Option<&str>, xpr_headers: bool, rules: CardRules, expected: CardSchema) {
        let request = CardRequest { path, version, xpr_headers };
        assert_eq!(choose(&request, &rules), ServedForm::Of(expected), "{request:?} {rules:?}");
    }

    #[test]
    fn the_first_line_that_fits_decides() {
        let pure = CardRules { unversioned: CardForm::Pure, ..USUAL };
        let native = CardRules { legacy: Some(LegacyForm::Native), ..pure };
        let account = CardRules { has_account: true, ..USUAL };
        let v01 = CardRules { legacy: Some(LegacyForm::V01), ..account };
        check(AgentCard, Some("1.0"), false, native, CardSchema::V1);
        check(AgentCard, None, false, native, CardSchema::Native);
        check(AgentCard, None, false, pure, CardSchema::V1);
        check(AgentCard, None, true, account, CardSchema::Hybrid);
        for version in ["0.3", "0.1", "nonsense", "2.0"] {
            check(AgentCard, Some(version), false, native, CardSchema::Hybrid);
        }
        check(Agent, Some("0.1"), false, account, CardSchema::V01);
        for version in ["0.3", "0.2.6", "1.0", "nonsense"] {
            check(Agent, Some(version), false, v01, CardSchema::V03);
        }
        check(Agent, None, true, v01, CardSchema::Xpr);
        check(Agent, None, false, v01, CardSchema::V01);
        check(Agent, None, false, account, CardSchema::Xpr);
        check(Agent, None, false, native, CardSchema::Native);
        let request = CardRequest { path: Agent, version: None, xpr_headers: false };
        assert_eq!(choose(&request, &USUAL), ServedForm::Older);
    }

    #[test]
    fn headers_that_contradict_each_other_have_an_answer() {
        let account = CardRules { has_account: true, ..USUAL };
        check(Agent, Some("0.3"), true, account, CardSchema::V03);
        check(Agent, Some("0.1"), true, account, CardSchema::V01);
        check(Agent, Some("nonsense"), true, account, CardSchema::V03);
        check(AgentCard, Some("1.0"), true, account, CardSchema::V1);
        check(AgentCard, Some("0.3"), true, account, CardSchema::Hybrid);
    }
}
