//! Python code in an answer: extraction, and the program that tests it.

/// Test of an answer's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// Python code that runs after the answer's and raises an exception if it is wrong.
    pub test: String,
    /// Python code that the answer continues: imports, helpers, and a function's signature with its
    /// docstring.
    pub prefix: Option<String>,
}

impl Code {
    /// Builds a program of the answer's code followed by the test. The code is the last fenced
    /// block, or the whole answer if there is none. With a prefix, the last block that defines the
    /// prefix's last function takes precedence.
    ///
    /// Code that defines that function comes after the prefix; other code becomes its body.
    pub fn program(&self, answer: &str) -> String {
        let blocks = blocks(answer);
        let Some(prefix) = &self.prefix else {
            let code = blocks.last().map_or(answer, String::as_str);
            return [code, "\n\n", &self.test, "\n"].concat();
        };
        let entry = entry(prefix);
        let defines = |code: &str| entry.is_none_or(|name| defined(code).any(|def| def == name));
        let whole = blocks.iter().rev().find(|block| defines(block));
        let code = whole.or(blocks.last()).map_or(answer, String::as_str);
        let between = if defines(code) { &stub(prefix) } else { "" };
        let code = match defines(code) {
            true => code.to_owned(),
            false => body(code, indent_of_body(prefix)),
        };
        let prefix = prefix.trim_end();
        [prefix, "\n", between, "\n", &code, "\n\n", &self.test, "\n"].concat()
    }

    /// Extracts the code of `answer`, for comparison with other answers.
    pub fn code(answer: &str) -> String {
        let block = blocks(answer).pop();
        block.unwrap_or_else(|| answer.to_owned())
    }
}

/// Contents of the fenced blocks of a Markdown text. An unclosed block extends to the end.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, usize, String)> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        let fence = ["```", "~~~"]
            .into_iter()
            .find(|&fence| bare.starts_with(fence));
        match (&mut open, fence) {
            (Some((mark, _, _)), Some(fence)) if *mark == fence => {
                blocks.extend(open.take().map(|(_, _, block)| block));
            }
            (Some((_, indent, block)), _) => {
                // In a list item, a block is indented as far as its fence.
                let shift = (line.len() - bare.len()).min(*indent);
                block.push_str(&line[shift..]);
                block.push('\n');
            }
            (None, Some(fence)) => {
                let indent = line.len() - bare.len();
                open = Some((fence, indent, String::new()));
            }
            (None, None) => (),
        }
    }
    blocks.extend(open.map(|(_, _, block)| block));
    blocks
}

/// Names of the functions defined at the top level of `code`.
fn defined(code: &str) -> impl DoubleEndedIterator<Item = &str> {
    code.lines().filter_map(|line| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line.strip_prefix("def ")?;
        let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric())?;
        Some(&rest[..end])
    })
}

/// Name of the function to complete: the last one of the prefix.
fn entry(prefix: &str) -> Option<&str> {
    defined(prefix).next_back()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Indentation of the function body at the end of `prefix`.
fn indent_of_body(prefix: &str) -> usize {
    let last = prefix.lines().rfind(|line| !line.trim().is_empty());
    last.map(indent).filter(|&columns| columns > 0).unwrap_or(4)
}

/// Placeholder body for the prefix's function, if the answer defines its own.
fn stub(prefix: &str) -> String {
    match entry(prefix) {
        Some(_) => format!("{}pass\n", " ".repeat(indent_of_body(prefix))),
        None => String::new(),
    }
}

/// Indents `code` as a function body by `columns`. Answers have their leading white space trimmed,
/// so the first line is often further left than the rest; the body ends at an unindented line.
fn body(code: &str, columns: usize) -> String {
    let mut lines = code.lines().skip_while(|line| line.trim().is_empty());
    let Some(first) = lines.next() else {
        return String::new();
    };
    let rest: Vec<&str> = lines.collect();
    let margin = " ".repeat(columns);
    let opens = first.trim_end().ends_with(':');
    let expected = if opens { columns + 1 } else { columns };
    let next = rest.iter().find(|line| !line.trim().is_empty());
    let shifted = indent(first) == 0 && next.is_some_and(|line| indent(line) < expected);
    let mut text = match indent(first) {
        0 => [&margin, first, "\n"].concat(),
        _ => [first, "\n"].concat(),
    };
    for line in rest {
        if shifted {
            text.push_str(&margin);
        } else if indent(line) == 0 && !line.trim().is_empty() {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "import math\n\ndef half(x):\n    \"\"\"Half of x.\"\"\"\n";

    fn program(prefix: Option<&str>, answer: &str) -> String {
        let code = Code {
            test: "assert half(4) == 2".to_owned(),
            prefix: prefix.map(str::to_owned),
        };
        code.program(answer)
    }

    #[test]
    fn the_last_block_is_the_code_and_else_the_answer() {
        let two = "Try\n```python\na = 1\n```\nor rather\n~~~\nb = 2\n~~~\nDone.";
        assert_eq!(program(None, two), "b = 2\n\n\nassert half(4) == 2\n");
        assert!(program(None, "c = 3").starts_with("c = 3\n\n"));
        // Unclosed, in a list item.
        assert_eq!(
            blocks("1. So:\n   ```py\n   if x:\n       y"),
            ["if x:\n    y\n"]
        );
        assert!(blocks("no ``` at the beginning").is_empty());
        assert_eq!(Code::code(two), "b = 2\n");
    }

    #[test]
    fn a_block_with_the_function_counts_before_one_that_calls_it() {
        let answer =
            "```python\ndef half(x):\n    return x / 2\n```\nUse it:\n```\nprint(half(3))\n```";
        let text = program(Some(PREFIX), answer);
        assert!(text.contains("def half(x):\n    return x / 2\n"), "{text}");
        assert!(!text.contains("print"), "{text}");
        // The prefix's signature gets its own body after the docstring.
        assert!(
            text.contains("\"\"\"Half of x.\"\"\"\n    pass\n"),
            "{text}"
        );
        assert!(text.starts_with("import math\n"), "{text}");
    }

    #[test]
    fn bodies_are_indented_as_their_function_is() {
        let wanted = "Half of x.\"\"\"\n\n    y = x\n    return y / 2\n";
        for body in [
            "    y = x\n    return y / 2",
            "y = x\n    return y / 2",
            "y = x\nreturn y / 2",
            "```\n    y = x\n    return y / 2\n```",
            "\n    y = x\n    return y / 2\n\nThat is it.",
        ] {
            let text = program(Some(PREFIX), body);
            assert!(text.contains(wanted), "{body}: {text}");
            assert!(!text.contains("That"), "{text}");
        }
        let block = "    if x:\n        return x / 2\n    return 0\n";
        for body in [
            "if x:\n        return x / 2\n    return 0",
            "if x:\n    return x / 2\nreturn 0",
        ] {
            let text = program(Some(PREFIX), body);
            assert!(text.contains(block), "{body}: {text}");
        }
        assert!(program(Some("def f(x):\n  '''x'''"), "return x").contains("\n  return x\n"));
    }

    #[test]
    fn a_prefix_without_a_function_stands_before_any_code() {
        let text = program(Some("import math"), "half = math.floor");
        assert!(
            text.starts_with("import math\n\nhalf = math.floor\n"),
            "{text}"
        );
    }
}
