/** The replica has events that its engine has not. */
export class LogDiverged extends Error {
  readonly code = 'log_diverged';
  /** @param runBook a section of docs/scale.md */
  constructor(dir: string, reason: string, cause?: unknown, runBook = 'A replica that differs') {
    super(
      `the replica in ${dir} does not match the log on its engine: ${reason}. Keep the folder: it may have the only copy ` +
        `of what the engine lost. What to do is in docs/scale.md, run-book "${runBook}"`,
      { cause },
    );
  }
}
