use rusqlite::types::Null;
use rusqlite::{Connection, Result, ToSql};

/// Submits a job; returns its id, or `None` if claimq_submit has none.
///
/// The payload is stored as SQLite has it (with the feature `json`,
/// [`crate::Json`] stores any value as JSON).  The options are those of
/// claimq_submit by their names there; what is NULL is as if it were left out.
/// [`list`] makes a JSON array of texts.  `task` is the name of
/// a task: see [`crate::Worker::task`].
///
/// ```no_run
/// # fn main() -> rusqlite::Result<()> {
/// # let db = claimq::open("app.db")?;
/// let gpu = claimq::list(["gpu"]);
/// claimq::submit(&db, "mail", "order 42",
///     &[("max_attempts", &3), ("capabilities", &gpu), ("task", &"welcome")])?;
/// # Ok(()) }
/// ```
pub fn submit(
    db: &Connection,
    lane: &str,
    payload: impl ToSql,
    options: &[(&str, &dyn ToSql)],
) -> Result<Option<i64>> {
    let able = options.iter().find(|option| option.0 == "capabilities");
    let has_task = options.iter().any(|option| option.0 == "task");
    let mut sql = "SELECT claimq_submit(?, ?".to_string();
    let mut values: Vec<&dyn ToSql> = vec![&lane, &payload];
    for (name, value) in options {
        if *name == "task" {
            sql += ", 'capabilities', (SELECT iif(t IS NULL, c,
                json_insert(coalesce(c, '[]'), '$[#]', 'task:' || t))
                FROM (SELECT ? AS c, ? AS t))";
            values.push(able.map_or(&Null as &dyn ToSql, |able| able.1));
            values.push(*value);
        } else if *name != "capabilities" || !has_task {
            sql += ", ?, ?";
            values.extend([name as &dyn ToSql, *value]);
        }
    }
    db.prepare_cached(&(sql + ")"))?
        .query_row(&*values, |row| row.get(0))
}

/// A JSON array of texts.
pub fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items = items.into_iter().map(|item| quoted(item.as_ref()));
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}
