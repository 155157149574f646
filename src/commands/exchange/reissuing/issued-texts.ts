/** The JSON texts of the ids and timestamps in one rendered answer. */
import { completionIdOf } from '../../chat/chat-request.ts';
import { messageIdOf } from '../../messages/messages-request.ts';
import { responseIdOf } from '../../responses/create-request.ts';

/** The exchange for which an answer is rendered. */
export interface Issue {
  readonly exchangeId: string;
  /** Unix seconds. */
  readonly createdAt: number;
  /** Unix seconds; default: `createdAt`. */
  readonly completedAt?: number;
}

/** A value that is issued anew: `item` is the index of an output item's id among those of the answer. */
export type IssuedValue = 'answerId' | 'createdAt' | 'completedAt' | number;

/** The dialects whose answers can be reissued. */
export type ReissuedDialect = 'chat' | 'responses' | 'messages' | 'embeddings';

/** The id of the answer, in the form of the ids that the gateway generates for exchanges. */
export function answerIdOf(dialect: ReissuedDialect, exchangeId: string, original: string): string {
  switch (dialect) {
    case 'chat':
      return completionIdOf(exchangeId);
    case 'responses':
      return responseIdOf(exchangeId);
    case 'messages':
      return messageIdOf(exchangeId);
    case 'embeddings':
      return `${/^[a-z]+[-_]/i.exec(original)?.[0] ?? 'embd-'}${exchangeId.replaceAll('-', '')}`;
  }
}

/**
 * Output items' ids in the form of item-ids.ts: the prefix of the original id's kind, the response, and a number. Equal
 * ids stay equal and different ids stay different.
 */
export class ItemIds {
  readonly #byOriginal = new Map<string, number>();
  readonly #items: { readonly kind: string; readonly place: number }[] = [];
  readonly #places = new Set<number>();
  #next = 0;

  get count(): number {
    return this.#items.length;
  }

  /** @param place index of the item in the response's output, where it is known */
  indexOf(original: string, place: unknown): number {
    const known = this.#byOriginal.get(original);
    if (known !== undefined) return known;
    const index = this.#items.length;
    this.#byOriginal.set(original, index);
    this.#items.push({ kind: /^([a-z]+)_/.exec(original)?.[1] ?? 'item', place: this.#freePlace(place) });
    return index;
  }

  texts(exchangeId: string): string[] {
    const root = exchangeId.replaceAll('-', '');
    return this.#items.map(({ kind, place }) => `"${kind}_${root}_${place}"`);
  }

  #freePlace(wanted: unknown): number {
    let place = this.#next;
    if (typeof wanted === 'number' && Number.isSafeInteger(wanted) && wanted >= 0 && !this.#places.has(wanted)) {
      place = wanted;
    } else {
      while (this.#places.has(place)) place += 1;
      this.#next = place + 1;
    }
    this.#places.add(place);
    return place;
  }
}
