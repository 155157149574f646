/** The targets that route strategies selected for sessions. In memory, bounded: the least recently used is dropped. */
import { LRUCache } from 'lru-cache';
import type { VirtualModel, VirtualTarget } from './virtual-model.ts';

const MAX_SESSIONS = 10_000;

export class SessionTargets {
  readonly #targets = new LRUCache<string, VirtualTarget>({ max: MAX_SESSIONS });

  /** Another object than any target of the virtual model, when that was changed since. */
  of({ source }: VirtualModel, sessionId: string): VirtualTarget | undefined {
    return this.#targets.get(keyOf(source, sessionId));
  }

  keep({ source }: VirtualModel, sessionId: string, target: VirtualTarget): void {
    this.#targets.set(keyOf(source, sessionId), target);
  }

  /** The next request of the session gets a new selection. */
  forget(source: string, sessionId: string): void {
    this.#targets.delete(keyOf(source, sessionId));
  }
}

function keyOf(source: string, sessionId: string): string {
  return `${source}\0${sessionId}`;
}
