/** The size limits of requests and answers: those held completely in memory are recorded in one event. */
import type { Config } from '../config/config.ts';
import type { EventLog } from '../events/log.ts';
import type { BodyLimits } from '../http/bodies.ts';

const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** Upper bound of an event's size beside its body. */
const ENVELOPE_BYTES = 1024 * 1024;

type SizedLog = Pick<EventLog, 'capabilities'>;

export function bodyLimits({ server }: Config, log: SizedLog): BodyLimits {
  return { ...server.bodyLimits, model: Math.min(server.bodyLimits.model, largestBody(log)) };
}

export function maxAnswerBytes(log: SizedLog): number {
  return Math.min(MAX_ANSWER_BYTES, largestBody(log));
}

function largestBody(log: SizedLog): number {
  return log.capabilities.maxEventBytes - ENVELOPE_BYTES;
}
