//! Tests of the server that take minutes or others' programs, and so run only when they are asked
//! for.

use std::process::Command;

use super::Suite;
use crate::{python, serve};

/// Scripts below `tests`, in the folder whose requirements they need.
const SCRIPTS: [(&str, &str, &str); 3] = [
    ("LangChain", "clients", "langchain_client.py"),
    ("llm", "clients", "llm_client.py"),
    (
        "requests generated from the OpenAPI document",
        "serve",
        "openapi.py",
    ),
];

/// Clients at once of a server, then of one that asks it in turn.
const SOAKS: [&str; 2] = ["64 clients at once", "64 clients at once of a chain of two"];

impl Suite<'_> {
    /// Runs clients and scripts against one server of the bundled members, the last also against
    /// one that has it as a member.
    pub(super) fn long(&mut self) {
        let workspace = self.workspace;
        let mut servers = None;
        self.step("servers for long tests", || {
            let tool = serve::tool(workspace, true)?;
            let inner = serve::Server::start(&tool)?;
            servers = Some((inner.chained(workspace, &tool)?, inner));
            Ok(())
        });
        let Some((outer, server)) = servers else {
            return;
        };
        let mut node = Command::new("npm");
        node.args(["run", "--silent", "test:clients"]);
        node.current_dir(workspace.web());
        self.tests("the AI SDK", server.name_to(&mut node));
        for (name, folder, script) in SCRIPTS {
            if let Some(mut command) = self.script(name, folder, script) {
                self.tests(name, server.name_to(&mut command));
            }
        }
        let [alone, chain] = SOAKS;
        if let Some(mut command) = self.script(alone, "serve", "soak.py") {
            self.tests(alone, server.name_to(&mut command));
            self.tests(chain, outer.name_to(server.name_as_inner(&mut command)));
        }
    }

    /// Command that runs a script, once its packages are there.
    fn script(&mut self, name: &str, folder: &str, script: &str) -> Option<Command> {
        let workspace = self.workspace;
        let mut interpreter = None;
        self.step(&format!("packages for {name}"), || {
            interpreter = Some(python::ready(workspace, folder)?);
            Ok(())
        });
        let mut command = Command::new(interpreter?);
        command.arg(workspace.root.join("tests").join(folder).join(script));
        // Caches of failures are no sources.
        command.current_dir(&workspace.target);
        Some(command)
    }
}
