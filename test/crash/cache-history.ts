/** What the log and the clients know of cached answers, over all rounds: it outlives the exchanges that were checked. */
import type { z } from 'zod';
import { answerCached, cachePurged } from '../../src/events/catalogue/cache.ts';
import { idOf, parsePosition, type RecordedEvent } from '../../src/events/event.ts';

export interface StoredAnswer extends z.infer<typeof answerCached.data> {
  readonly position: number;
  /** The position of its request. */
  readonly began: number;
  readonly at: number;
  readonly userPath: string;
}

export interface Purge {
  readonly position: number;
  readonly selection: z.infer<typeof cachePurged.data>;
}

/** Who got an id first. */
export interface IssuedId {
  readonly exchangeId: string;
  readonly key: string | undefined;
}

export class CacheHistory {
  /** By the exchange that a provider answered. */
  readonly stored = new Map<string, StoredAnswer>();
  /** By the request id of the administrator. */
  readonly purges = new Map<string, Purge>();
  /** Digests of whole answers without what is issued anew for each caller, by exchange. */
  readonly answers = new Map<string, string>();
  readonly issued = new Map<string, IssuedId>();
  readonly #began = new Map<string, number>();
  hits = 0;

  add(event: RecordedEvent): void {
    const { type, stream, position, at, context, data } = event;
    if (type === 'cache.hit') this.hits += 1;
    if (type === 'request.received') this.#began.set(idOf(stream), parsePosition(position));
    if (type === answerCached.type) {
      const { userPath = '' } = context;
      const began = this.#began.get(idOf(stream)) ?? 0;
      const facts = { ...answerCached.data.parse(data), position: parsePosition(position), began, at, userPath };
      this.stored.set(idOf(stream), facts);
    }
    if (type === cachePurged.type) {
      const selection = cachePurged.data.parse(data);
      this.purges.set(context.requestId ?? event.id, { position: parsePosition(position), selection });
    }
  }
}

export function isSelected({ userPath, provider, model }: StoredAnswer, { selection }: Purge): boolean {
  const isAtOrBelow = selection.userPath === undefined || `${userPath}/`.startsWith(`${selection.userPath}/`);
  const isOf = (selected: string | undefined, own: string) => selected === undefined || selected === own;
  return isAtOrBelow && isOf(selection.provider, provider) && isOf(selection.model, model);
}
