/**
 * Opening of files of the origin's private file system by this thread alone, which only workers
 * can, within a time limit: after a reload Chromium 156 sometimes never opens a file, and gives no
 * error.
 */

/** FileSystemSyncAccessHandle, as far as it is used here. */
export interface Access {
  getSize(): number;
  read(into: Uint8Array<ArrayBuffer>, options: { at: number }): number;
  write(bytes: Uint8Array<ArrayBuffer>, options: { at: number }): number;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}

type Openable = FileSystemFileHandle & {
  createSyncAccessHandle?(options?: { mode: "read-only" }): Promise<Access>;
};

/** Time limit in ms. Opening takes a few. */
const limitMs = 3000;
/** Time in ms for an answer that came while this thread computed. */
const momentMs = 100;

/** Whether this thread can open files. */
export const opensFiles = (): boolean =>
  typeof FileSystemFileHandle !== "undefined" &&
  "createSyncAccessHandle" in FileSystemFileHandle.prototype;

/** Opens a file; throws a TimeoutError if the browser does not. */
export async function openAccess(
  file: FileSystemFileHandle,
  options?: { mode: "read-only" },
): Promise<Access> {
  const opening = (file as Openable).createSyncAccessHandle!(options);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => {
      timer = setTimeout(() => resolve(undefined), momentMs);
    }, limitMs);
  });
  const access = await Promise.race([opening, late]).finally(() => clearTimeout(timer));
  if (access) return access;
  // Nobody uses it any more, and it locks others out.
  opening.then(
    (access) => access.close(),
    () => undefined,
  );
  throw new DOMException(
    `The browser did not open ${file.name} in ${limitMs / 1000} seconds.`,
    "TimeoutError",
  );
}
