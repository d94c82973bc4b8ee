//! The file of figures, and its plots.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::figure::Figure;
use crate::plot;

const FILE: &str = "compare.json";

/// Where figures go if nothing else is said.
pub fn default_dir() -> PathBuf {
    // Benchmarks run in the directory of their package.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench")
}

/// Figures in a directory. They are there as soon as they are added, whatever happens later.
pub struct Record {
    dir: PathBuf,
    figures: Vec<Figure>,
}

impl Record {
    /// One that replaces what the directory has.
    pub fn anew(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            figures: Vec::new(),
        }
    }

    /// One that goes on with what the directory has.
    pub fn resumed(dir: &Path) -> Result<Self, Box<dyn Error>> {
        let figures = match fs::read(dir.join(FILE)) {
            Ok(json) => serde_json::from_slice(&json)?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            figures,
            ..Self::anew(dir)
        })
    }

    /// Adds figures, which replace those of the same row and subject.
    pub fn add(&mut self, figures: Vec<Figure>) -> Result<(), Box<dyn Error>> {
        self.figures.retain(|old| {
            let again = |new: &Figure| new.bench == old.bench && new.subject == old.subject;
            !figures.iter().any(again)
        });
        self.figures.extend(figures);
        fs::create_dir_all(&self.dir)?;
        let json = serde_json::to_string_pretty(&self.figures)?;
        fs::write(self.dir.join(FILE), json)?;
        plot::draw_all(&self.figures, &self.dir)
    }
}
