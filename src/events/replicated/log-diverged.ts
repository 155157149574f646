/** The replica has events that its engine has not. */
export class LogDiverged extends Error {
  readonly code = 'log_diverged';
  constructor(dir: string, reason: string, cause?: unknown) {
    super(
      `the replica in ${dir} does not match the log on its engine: ${reason}. Move the folder away and start again: ` +
        'it is then read anew from the engine',
      { cause },
    );
  }
}
