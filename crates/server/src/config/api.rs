//! The API for operators in `[api]`.

use super::Config;
use schemars::JsonSchema;
use serde::Deserialize;

/// `[api]`: the API for operators and consoles, at `/api/v1`. It takes keys with the scope `admin` or `admin.read`.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiConfig {
    /// Whether the API is served. Where nothing is said, it is if only this machine reaches the server.
    pub enabled: Option<bool>,
}

impl Config {
    /// Whether the API for operators is served.
    pub fn serves_api(&self) -> bool {
        self.api.enabled.unwrap_or_else(|| self.reachable_by().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_others_can_reach_has_the_api_only_if_it_was_switched_on() {
        let serves = |text: &str| Config::read(text).unwrap().serves_api();
        assert!(serves(""));
        assert!(!serves("[api]\nenabled = false"));
        for reachable in
            ["listen = \"0.0.0.0:1\"", "public_url = \"https://agents.example.com\"", "proxies = [\"10.0.0.1\"]"]
        {
            assert!(!serves(&format!("[server]\n{reachable}")), "{reachable}");
            assert!(serves(&format!("[server]\n{reachable}\n[api]\nenabled = true")), "{reachable}");
        }
    }
}
