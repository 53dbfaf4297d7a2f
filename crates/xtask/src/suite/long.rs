//! Tests of the server that take minutes or others' programs, and so run only when they are asked
//! for.

use std::process::Command;

use super::Suite;
use crate::{python, serve};

/// Scripts below `tests`, in the folder whose requirements they need.
const SCRIPTS: [(&str, &str, &str); 4] = [
    ("LangChain", "clients", "langchain_client.py"),
    ("llm", "clients", "llm_client.py"),
    (
        "requests generated from the OpenAPI document",
        "serve",
        "openapi.py",
    ),
    ("64 clients at once", "serve", "soak.py"),
];

impl Suite<'_> {
    /// Runs clients and scripts against one server of the bundled members.
    pub(super) fn long(&mut self) {
        let workspace = self.workspace;
        let mut server = None;
        if !self.step("a server for long tests", || {
            server = Some(serve::Server::start(&serve::tool(workspace, true)?)?);
            Ok(())
        }) {
            return;
        }
        let Some(server) = server else { return };
        let mut node = Command::new("npm");
        node.args(["run", "--silent", "test:clients"]);
        node.current_dir(workspace.web());
        self.tests("the AI SDK", server.name_to(&mut node));
        for (name, folder, script) in SCRIPTS {
            let mut interpreter = None;
            if !self.step(&format!("packages for {name}"), || {
                interpreter = Some(python::ready(workspace, folder)?);
                Ok(())
            }) {
                continue;
            }
            let Some(interpreter) = interpreter else {
                continue;
            };
            let mut command = Command::new(interpreter);
            command.arg(workspace.root.join("tests").join(folder).join(script));
            // Caches of failures are no sources.
            command.current_dir(&workspace.target);
            self.tests(name, server.name_to(&mut command));
        }
    }
}
