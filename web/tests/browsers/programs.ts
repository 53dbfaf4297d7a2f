/**
 * Programs that tests start: each ends with the tests, whatever becomes of those, and all that it
 * started.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { createServer, type AddressInfo } from "node:net";

const running = new Set<ChildProcess>();

/** Starts a program in a group of its own. `out`: further files that it gets, from the third on. */
export function start(
  program: string,
  args: string[],
  environment: NodeJS.ProcessEnv = {},
  out: "pipe"[] = [],
): ChildProcess {
  const child = spawn(program, args, {
    detached: true,
    stdio: ["ignore", "ignore", "ignore", ...out],
    env: { ...process.env, ...environment },
  });
  // Told by whoever waits for it to answer.
  child.on("error", () => running.delete(child));
  running.add(child);
  return child;
}

/** Ends a program with all that it started. */
export function end(child: ChildProcess): void {
  if (!running.delete(child) || child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

process.on("exit", () => running.forEach(end));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

/**
 * Tries for a minute at least; a program takes a moment to listen, and its first start on a machine
 * reads it from the disk.
 */
export async function soon<T>(what: string, attempt: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      if (tries === 1200) throw new Error(`${what} does not answer`, { cause: error });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** A port that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
