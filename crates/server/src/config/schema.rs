//! The JSON Schema of `sabir.toml`, generated from the types that read it, for editors that complete and check keys.

use super::Config;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

impl Config {
    /// The schema of the whole file.
    pub fn json_schema() -> Value {
        let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Self>().to_value();
        schema["title"] = json!("sabir.toml");
        schema["description"] = json!("The configuration of a Sabir server.");
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_knows_the_keys_of_the_example_file() {
        let schema = Config::json_schema();
        let example: toml::Table = toml::from_str(include_str!("../../../../sabir.example.toml")).unwrap();
        let unknown = unknown_keys(&schema, &schema, &toml::Value::Table(example), "");
        assert_eq!(unknown, Vec::<String>::new());
    }

    #[test]
    fn the_schema_refuses_keys_that_the_server_refuses() {
        let schema = Config::json_schema();
        let misspelt: toml::Table = toml::from_str("[server]\nlsiten = \"x\"\n[[agent]]\nnamed = \"x\"").unwrap();
        let unknown = unknown_keys(&schema, &schema, &toml::Value::Table(misspelt), "");
        assert_eq!(unknown, ["/agent/named", "/server/lsiten"]);
        assert_eq!(schema["properties"]["agent"]["type"], "array");
        assert!(schema["definitions"]["ServerConfig"]["additionalProperties"] == json!(false), "{schema:#}");
    }

    /// The keys of a document that the schema does not have.
    fn unknown_keys(root: &Value, schema: &Value, value: &toml::Value, at: &str) -> Vec<String> {
        let schema = resolved(root, schema);
        match value {
            toml::Value::Table(table) => table
                .iter()
                .flat_map(|(key, value)| match place(root, &schema, key) {
                    Some(schema) => unknown_keys(root, &schema, value, &format!("{at}/{key}")),
                    None => vec![format!("{at}/{key}")],
                })
                .collect(),
            toml::Value::Array(items) => {
                items.iter().flat_map(|item| unknown_keys(root, &schema["items"], item, at)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The schema of a member; `Null` if the schema allows every name.
    fn place(root: &Value, schema: &Value, key: &str) -> Option<Value> {
        if let Some(one) = schema["properties"].get(key) {
            return Some(one.clone());
        }
        if let Some(variants) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            return variants.iter().find_map(|variant| place(root, &resolved(root, variant), key));
        }
        match &schema["additionalProperties"] {
            Value::Object(_) => Some(schema["additionalProperties"].clone()),
            Value::Bool(false) => None,
            _ if schema["properties"].is_object() => None,
            _ => Some(Value::Null),
        }
    }

    /// Follows references, and unwraps an optional value.
    fn resolved(root: &Value, schema: &Value) -> Value {
        let reference = schema["$ref"].as_str().or(schema["allOf"][0]["$ref"].as_str());
        if let Some(reference) = reference {
            let name = reference.rsplit('/').next().unwrap_or_default();
            return resolved(root, &root["definitions"][name]);
        }
        let variants = schema["anyOf"].as_array().filter(|all| all.iter().any(|one| one["type"] == "null"));
        match variants.and_then(|all| all.iter().find(|one| one["type"] != "null")) {
            Some(one) => resolved(root, one),
            None => schema.clone(),
        }
    }
}
