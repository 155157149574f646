/** Opens a log on an engine that several gateways can share, with a replica in files of this machine. */

import type { Position } from './event.ts';
import type { LogEngine } from './replicated/engine.ts';
import type { LogEngineAccess } from './replicated/engine-access.ts';
import { ReplicatedLog } from './replicated/replicated-log.ts';

export interface OpenReplicatedLogOptions extends LogEngineAccess {
  /** The folder of the replica. */
  readonly dir: string;
  readonly warn?: (message: string, error: unknown) => void;
  /** Position of the last event that the replica has. */
  readonly onProgress?: ((position: Position) => void) | undefined;
  /** The engine cannot be used at the moment; the opening goes on. */
  readonly onDelay?: ((reason: string, cause: 'engine' | 'replica') => void) | undefined;
  /** Ends the opening. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Resolves when the replica has everything that was on the engine; waits while the engine cannot be reached.
 * @throws the reason of the signal, EngineUnsuitable, LogDiverged, EngineDamaged, LogLocked
 */
export async function openReplicatedLog(options: OpenReplicatedLogOptions): Promise<ReplicatedLog> {
  const { dir, warn, signal, onProgress, onDelay, ...access } = options;
  return ReplicatedLog.open({ engine: await createEngine(access), dir, warn, signal, onProgress, onDelay });
}

/** The engine, not open. Only the client of the engine that is used is loaded. @throws EngineUnsuitable */
export async function createEngine(access: LogEngineAccess): Promise<LogEngine> {
  if (access.url.startsWith('kafka:')) {
    const { createKafkaEngine } = await import('./kafka/kafka-engine.ts');
    return createKafkaEngine(access);
  }
  const { createEventStoreEngine } = await import('./eventstore/eventstore-engine.ts');
  return createEventStoreEngine(access);
}
