/** A backup or a restore that cannot be done with these folders. The message says why; nothing was lost. */
export class BackupRefused extends Error {
  readonly code = 'backup_refused';
  constructor(reason: string, cause?: unknown) {
    super(reason, { cause });
  }
}
