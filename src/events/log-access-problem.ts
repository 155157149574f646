/** What opening a log would refuse before anything is contacted. */
import { parseEventStoreAddress } from './eventstore/eventstore-address.ts';
import { parseKafkaAddress } from './kafka/kafka-address.ts';
import { directoryOf } from './open-log.ts';
import { EngineUnsuitable } from './replicated/engine.ts';
import type { LogEngineAccess } from './replicated/engine-access.ts';
import { checkTlsTexts } from './replicated/tls-texts.ts';

export interface LogAccessProblem {
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
