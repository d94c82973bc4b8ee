use std::sync::OnceLock;

use ::redis::Script;

use crate::master::{Action, EXTEND, RAISE, RELEASE, TAKE_FENCED};

/// The scripts as they are sent: without their comments, which the servers would
/// read and hash with every command.
struct Scripts {
    extend: String,
    take_fenced: String,
    raise: String,
    release: String,
    release_hash: String,
}

/// What is sent for an action that is a script's.
pub(super) fn source(action: Action) -> &'static str {
    match action {
        Action::Extend(_) => &scripts().extend,
        Action::TakeFenced(_) => &scripts().take_fenced,
        Action::Raise { .. } => &scripts().raise,
        Action::Take(_) | Action::GiveBack(_) | Action::Release | Action::Look | Action::Check => {
            &scripts().release
        }
    }
}

/// What the release's script is called by servers that know it.
pub(super) fn release_hash() -> &'static str {
    &scripts().release_hash
}

fn scripts() -> &'static Scripts {
    static SCRIPTS: OnceLock<Scripts> = OnceLock::new();
    SCRIPTS.get_or_init(|| {
        let release = bare(RELEASE);
        Scripts {
            extend: bare(EXTEND),
            take_fenced: bare(TAKE_FENCED),
            raise: bare(RAISE),
            release_hash: Script::new(&release).get_hash().to_owned(),
            release,
        }
    })
}

fn bare(source: &str) -> String {
    let lines = source.lines().map(str::trim);
    let code: Vec<&str> = lines.filter(|line| !line.starts_with("--")).collect();
    code.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_comments_and_indentation_is_left_out() {
        assert_eq!(
            bare("-- one\nif a then\n  -- two\n  return 'x  y'\nend\n"),
            "if a then\nreturn 'x  y'\nend"
        );
        for script in [EXTEND, TAKE_FENCED, RAISE, RELEASE] {
            let words = |text: &str| -> Vec<String> {
                let code = text
                    .lines()
                    .filter(|line| !line.trim_start().starts_with("--"));
                let words = code.flat_map(str::split_whitespace);
                words.map(str::to_owned).collect()
            };
            assert_eq!(words(&bare(script)), words(script));
        }
    }
}
