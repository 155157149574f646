import type { Disk } from '../embedded/disk.ts';
import { EmbeddedLog } from '../embedded/embedded-log.ts';
import { describeMissing, LogCorrupted, LogIncomplete } from '../embedded/log-errors.ts';

export interface OpenReplicaOptions {
  readonly dir: string;
  readonly warn?: ((message: string, error: unknown) => void) | undefined;
  readonly disk?: Disk | undefined;
}

/** Opens the files of a replica. @throws ReplicaDamaged, and as `EmbeddedLog.open` */
export async function openReplica({ dir, warn, disk }: OpenReplicaOptions): Promise<EmbeddedLog> {
  try {
    const given = { ...(warn && { warn }), ...(disk && { disk }) };
    return await EmbeddedLog.open(dir, { durability: 'relaxed', replica: true, ...given });
  } catch (error) {
    throw error instanceof LogCorrupted || error instanceof LogIncomplete ? new ReplicaDamaged(dir, error) : error;
  }
}

/** The files of a replica are damaged or incomplete. Nothing is lost: the engine has every event. */
class ReplicaDamaged extends Error {
  readonly code = 'replica_damaged';
  constructor(dir: string, cause: LogCorrupted | LogIncomplete) {
    const reason = cause instanceof LogIncomplete ? cause.missing.map(describeMissing).join('; ') : cause.message;
    super(
      `the replica of the log in ${dir} is damaged: ${reason}. Its engine has every event: delete the folder and start ` +
        'again. The replica is then read anew from the engine (docs/scale.md, run-book "The replica\'s folder is damaged or ' +
        'lost")',
      { cause },
    );
  }
}
