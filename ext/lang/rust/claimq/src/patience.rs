//! What a worker does about a lock that lasts longer than its timeout, a full
//! disk, and a file that is not there any more.
use crate::db::waiting_cures;
use crate::Worker;
use rusqlite::{ffi, Error, Result};
use std::env::current_dir;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

const BEAT: Duration = Duration::from_millis(50); // a stop is seen after it

impl Worker {
    /// What `f` returns.  While it fails for a reason that waiting cures, that
    /// is logged, and it is done again after a pause, which grows.  A worker
    /// that is stopping does so for the time of grace; then: `None`.
    pub(crate) fn patiently<T>(
        &self,
        file: &File,
        what: &str,
        grace: Duration,
        mut f: impl FnMut() -> Result<T>,
    ) -> Result<Option<T>> {
        let (mut pause, mut end) = (BEAT * 2, None);
        loop {
            let error = match f() {
                Err(error) => file.check().map(|_| error)?,
                Ok(result) => return Ok(Some(result)),
            };
            if !waiting_cures(&error) {
                return Err(error);
            }
            let now = Instant::now();
            if self.stop.load(SeqCst)
                && now >= *end.get_or_insert_with(|| now + grace)
            {
                (self.log)(&format!("{what}: {error}: given up"));
                return Ok(None);
            }
            (self.log)(&format!("{what}: {error}; again in {pause:?}"));
            thread::sleep(BEAT);
            while !self.stop.load(SeqCst) && now.elapsed() < pause {
                thread::sleep(BEAT);
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }
}

/// A file, and which one it was when it was opened.
pub(crate) struct File {
    path: PathBuf,
    opened: Option<(u64, u64)>,
}

impl File {
    pub(crate) fn new(path: &Path) -> File {
        // A handler may change the directory later.
        let path = current_dir().unwrap_or_default().join(path);
        File { path, opened: None }
    }

    /// It is open.
    pub(crate) fn remember(&mut self) {
        self.opened = self.identity().ok();
    }

    /// Which file has the name now.
    fn identity(&self) -> io::Result<(u64, u64)> {
        let found = fs::metadata(&self.path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Ok((found.dev(), found.ino()))
        }
        #[cfg(not(unix))]
        {
            let _ = found;
            Ok((0, 0))
        }
    }

    /// SQLite would go on with a file that nobody else can see.
    pub(crate) fn check(&self) -> Result<()> {
        let gone = match (self.identity(), self.opened) {
            (Ok(now), Some(opened)) => now != opened,
            (Err(error), Some(_)) => error.kind() == io::ErrorKind::NotFound,
            (_, None) => false,
        };
        if !gone {
            return Ok(());
        }
        Err(Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_READONLY_DBMOVED),
            Some(format!(
                "{} was removed or replaced while the worker used it",
                self.path.display()
            )),
        ))
    }
}
