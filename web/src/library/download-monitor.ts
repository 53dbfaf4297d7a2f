/** Progress of the download that a session of the Prompt API waits for. */

/**
 * Reports the download by `downloadprogress`: `loaded`, from 0 to 1. Both ends are reported even
 * without a download.
 */
export interface DownloadMonitor extends EventTarget {
  ondownloadprogress: ((event: ProgressEvent) => void) | null;
  addEventListener(
    type: "downloadprogress",
    listener: (event: ProgressEvent) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
  removeEventListener(
    type: "downloadprogress",
    listener: (event: ProgressEvent) => void,
    options?: boolean | EventListenerOptions,
  ): void;
  removeEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | EventListenerOptions,
  ): void;
}

export const downloadMonitor = (): DownloadMonitor =>
  Object.assign(new EventTarget(), {
    ondownloadprogress: null,
  }) as EventTarget as DownloadMonitor;

/** A ProgressEvent, which only browsers have. */
class DownloadProgress extends Event implements ProgressEvent {
  readonly loaded: number;
  readonly total = 1;
  readonly lengthComputable = true;

  constructor(loaded: number) {
    super("downloadprogress");
    this.loaded = loaded;
  }
}

export function reportProgress(monitor: DownloadMonitor, share: number): void {
  const event = new DownloadProgress(share);
  monitor.dispatchEvent(event);
  monitor.ondownloadprogress?.(event);
}
