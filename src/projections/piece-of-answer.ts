/** Pieces of answers: most events of a log. Folds that do not read answers skip them before anything else. */
import { chunkReceived } from '../events/catalogue/exchange.ts';
import { frameDelivered } from '../events/catalogue/guardrail.ts';
import type { RecordedEvent } from '../events/event.ts';

export function isPieceOfAnswer({ type }: Pick<RecordedEvent, 'type'>): boolean {
  return type === chunkReceived.type || type === frameDelivered.type;
}
