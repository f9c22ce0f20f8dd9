//! The parameters of an operation, from the path, the query and the body of its request.
//!
//! All three become the members of one JSON object, which the operation reads. A path and a query have texts alone; the
//! schema of the operation says which of them are numbers.

use crate::admin::AdminError;
use crate::admin::operation::ApiOperation;
use axum::extract::RawPathParams;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The schema of the parameters of an operation.
pub(super) fn schema(operation: &ApiOperation) -> Value {
    (operation.parameters)(&mut SchemaSettings::draft2020_12().into_generator()).to_value()
}

/// Reads the parameters of a request.
pub(super) fn read(
    schema: &Value,
    path: &RawPathParams,
    query: Option<&str>,
    body: &[u8],
) -> Result<Value, AdminError> {
    let mut members = match body {
        [] => Map::new(),
        body => match serde_json::from_slice(body) {
            Ok(Value::Object(members)) => members,
            Ok(_) => return Err(AdminError::invalid("the body is a JSON object with the parameters")),
            Err(error) => return Err(AdminError::invalid(format!("the body is not JSON: {error}"))),
        },
    };
    let query = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let path = path.iter().map(|(name, value)| (name.into(), value.into()));
    for (name, value) in query.chain(path) {
        let value = typed(schema, &name, &value)?;
        match (members.get_mut(&*name), value) {
            (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
            (Some(_), _) => return Err(AdminError::invalid(format!("{name} is given more than once"))),
            (None, value) => drop(members.insert(name.into_owned(), value)),
        }
    }
    Ok(Value::Object(members))
}

/// A text of a path or a query, with the type that the operation wants.
fn typed(schema: &Value, name: &str, text: &str) -> Result<Value, AdminError> {
    let wanted = &schema["properties"][name]["type"];
    let wanted = match wanted {
        Value::Array(types) => types.iter().find(|one| *one != "null").unwrap_or(wanted),
        one => one,
    };
    let wrong = |what: &str| AdminError::invalid(format!("{name} is {what}, and not {text:?}"));
    match wanted.as_str() {
        Some("integer") => text.parse::<i128>().ok().and_then(number).ok_or_else(|| wrong("a whole number")),
        Some("boolean") => text.parse().map(Value::Bool).map_err(|_| wrong("true or false")),
        Some("array") => Ok(Value::Array(vec![text.into()])),
        _ => Ok(text.into()),
    }
}

fn number(number: i128) -> Option<Value> {
    i64::try_from(number).map(Value::from).or_else(|_| u64::try_from(number).map(Value::from)).ok()
}
