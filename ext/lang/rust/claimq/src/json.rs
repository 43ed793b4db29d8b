//! Payloads and steps of any type, as JSON: the feature `json`.
use crate::{Job, Outcome};
use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{Error, ToSql};
use serde::{de::DeserializeOwned, Serialize};

/// A value that is stored as JSON: `submit(&db, "mail", Json(&order), &[])`.
pub struct Json<T>(pub T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(&self.0)
            .map(ToSqlOutput::from)
            .map_err(|error| Error::ToSqlConversionFailure(error.into()))
    }
}

impl Job {
    /// The payload, which is JSON, as a value of some type.
    pub fn json<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        from(&self.payload)
    }

    /// As [`Job::step`], for a value of some type, which is stored as JSON.
    pub fn step_json<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        f: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<T> {
        let text = || Ok(serde_json::to_string(&f()?)?);
        Ok(from(&self.step(name, text)?)?)
    }
}

fn from<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    match value {
        Value::Text(text) => serde_json::from_str(text),
        Value::Blob(bytes) => serde_json::from_slice(bytes),
        Value::Integer(number) => serde_json::from_str(&number.to_string()),
        Value::Real(number) => serde_json::from_str(&number.to_string()),
        Value::Null => serde_json::from_str("null"),
    }
}
