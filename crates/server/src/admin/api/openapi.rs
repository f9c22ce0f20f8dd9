//! The description of the API in OpenAPI 3.1, made from the table of operations.

use crate::admin::operation::{ApiMethod, ApiOperation, OperationAccess, placeholder};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Describes all operations that have a path.
pub(super) fn describe(operations: &[ApiOperation]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for operation in operations {
        let Some(path) = operation.endpoint.path else { continue };
        let method = match operation.endpoint.method {
            ApiMethod::Get => "get",
            ApiMethod::Post => "post",
            ApiMethod::Delete => "delete",
        };
        let described = describe_one(operation, path, &mut generator);
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[method] = described;
    }
    paths.insert("/events".into(), feed());
    let mut schemas = Value::Object(generator.take_definitions(true));
    schemas["Problem"] = problem();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sabir admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Administers a server: its agents, keys, tasks, deliveries and bookings.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {
                "type": "http", "scheme": "bearer",
                "description": "An API key, or a token that the server accepts, with the scope admin or admin.read.",
            }},
        },
    })
}

fn describe_one(operation: &ApiOperation, path: &str, generator: &mut SchemaGenerator) -> Value {
    let schema = (operation.parameters)(generator).to_value();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let in_path: Vec<&str> = path.split('/').filter_map(placeholder).collect();
    let has_body = operation.endpoint.method == ApiMethod::Post;
    let (mut parameters, mut members) = (Vec::new(), Map::new());
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let place = if in_path.contains(&&**name) { "path" } else { "query" };
        if place == "query" && has_body {
            members.insert(name.clone(), property.clone());
            continue;
        }
        let mut property = property.clone();
        let description = property.as_object_mut().and_then(|property| property.remove("description"));
        parameters.push(json!({
            "name": name, "in": place, "required": required.contains(&&**name), "schema": property,
            "description": description.unwrap_or_else(|| json!("")),
        }));
    }
    let scope = match operation.access {
        OperationAccess::Look => "admin.read",
        OperationAccess::Change => "admin",
    };
    let output = (operation.output)(generator).to_value();
    let mut described = json!({
        "operationId": operation.name,
        "summary": operation.endpoint.summary,
        "description": format!("{} Takes the scope {scope}.", schema["description"].as_str().unwrap_or_default()).trim(),
        "parameters": parameters,
        "responses": {
            operation.endpoint.status.to_string(): {
                "description": "Done", "content": {"application/json": {"schema": output}},
            },
            "default": {
                "description": "Not done",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    });
    if !members.is_empty() {
        let required: Vec<&&str> = required.iter().filter(|name| members.contains_key(**name)).collect();
        let body = json!({
            "type": "object", "properties": members, "required": required, "additionalProperties": false,
        });
        described["requestBody"] =
            json!({"required": !required.is_empty(), "content": {"application/json": {"schema": body}}});
    }
    described
}

/// The feed of changes, which is no operation: it has no end.
fn feed() -> Value {
    let id = json!({
        "name": "Last-Event-ID", "in": "header", "required": false, "schema": {"type": "string"},
        "description": "The id of the last event that the subscriber has read.",
    });
    json!({"get": {
        "operationId": "FollowChanges",
        "summary": "Follow the changes of tasks, agents and deliveries",
        "description": "Server-sent events: task, agents and deliveries. Takes the scope admin.read.",
        "parameters": [id],
        "responses": {
            "200": {"description": "The feed", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
            "default": {
                "description": "Not done",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }})
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "Why a request failed (RFC 9457).",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "A sentence for a person."},
            "code": {"type": "string", "description": "What programs branch on."},
            "hint": {"type": ["string", "null"], "description": "What to do next."},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::operation::api_operations;

    #[test]
    fn every_reference_in_the_description_leads_to_a_schema() {
        let description = describe(&api_operations());
        let text = description.to_string();
        let references: Vec<&str> =
            text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(references.len() > 50, "{}", references.len());
        for reference in references {
            assert!(description.pointer(reference).is_some(), "{reference}");
        }
    }

    #[test]
    fn every_path_names_the_parameters_that_it_has() {
        let description = describe(&api_operations());
        for (path, methods) in description["paths"].as_object().unwrap() {
            let named: Vec<&str> = path.split('/').filter_map(placeholder).collect();
            for (method, operation) in methods.as_object().unwrap() {
                let parameters = operation["parameters"].as_array().unwrap().iter();
                let in_path: Vec<&str> = parameters
                    .filter(|one| one["in"] == "path")
                    .map(|one| {
                        assert_eq!(one["required"], true, "{method} {path}");
                        one["name"].as_str().unwrap()
                    })
                    .collect();
                assert_eq!(in_path, named, "{method} {path}");
            }
        }
    }
}
