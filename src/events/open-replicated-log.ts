/** Opens a log on an engine that several gateways can share, with a replica in files of this machine. */
import type { Position } from './event.ts';
import { parseEventStoreAddress } from './eventstore/eventstore-address.ts';
import { parseKafkaAddress } from './kafka/kafka-address.ts';
import { directoryOf } from './open-log.ts';
import { checkTlsTexts, EngineUnsuitable, type LogEngine, type LogEngineAccess } from './replicated/engine.ts';
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

/** What opening a log would refuse before anything is contacted. */
interface LogAccessProblem {
  /** What is wrong: the address, or the settings of TLS. */
  readonly setting: 'url' | 'tls';
  /** Has no secret. */
  readonly reason: string;
}

/** Undefined: nothing is wrong. */
export function engineAccessProblem(access: LogEngineAccess): LogAccessProblem | undefined {
  const parse = access.url.startsWith('kafka:') ? parseKafkaAddress : parseEventStoreAddress;
  try {
    parse(access);
  } catch (error) {
    if (error instanceof EngineUnsuitable) return { setting: 'url', reason: error.message };
    throw error;
  }
  try {
    checkTlsTexts(access);
  } catch (error) {
    if (error instanceof EngineUnsuitable) return { setting: 'tls', reason: error.message };
    throw error;
  }
  return undefined;
}

/** Of a log in files or in memory. */
export function logUrlProblem(url: string): LogAccessProblem | undefined {
  if (!url.startsWith('file:')) return undefined;
  try {
    directoryOf(url);
    return undefined;
  } catch {
    return { setting: 'url', reason: 'expected a folder of this machine, as in file:./data/log or file:///data/log' };
  }
}
