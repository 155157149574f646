/** A copy that cannot be made from this source or into this destination. The message says why. */
export class CopyRefused extends Error {
  readonly code = 'copy_refused';
  constructor(reason: string, cause?: unknown) {
    super(reason, { cause });
  }
}
