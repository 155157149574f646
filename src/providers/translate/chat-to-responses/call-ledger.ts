/** Assigns the pieces of a stream to tool calls. Servers identify calls by index, by id, or not at all. */
import type { CallDelta } from './chat-delta.ts';
import type { OpenCall } from './open-call.ts';

/** A tool call as identified in the provider's chunks; `open` once its name is known. */
export interface Call {
  id: string | undefined;
  /** Arguments that arrived before the name. */
  held: string;
  open?: OpenCall;
}

export class CallLedger {
  readonly #calls: Call[] = [];
  readonly #byIndex = new Map<number, Call>();

  /** The call of a piece, a new one if necessary. Some servers give every call the index 0. */
  callOf(delta: CallDelta): Call {
    const known = this.#find(delta);
    const another = delta.id !== undefined && delta.name !== undefined && known?.id !== delta.id;
    if (known !== undefined && !(another && known.open !== undefined)) {
      if (known.open === undefined) known.id ??= delta.id;
      return known;
    }
    const call: Call = { id: delta.id, held: '' };
    this.#calls.push(call);
    if (delta.index !== undefined) this.#byIndex.set(delta.index, call);
    return call;
  }

  /** Calls with arguments that never got a name; their arguments must not be lost. */
  nameless(): Call[] {
    return this.#calls.filter((call) => call.open === undefined && call.held !== '');
  }

  #find({ index, id, name }: CallDelta): Call | undefined {
    if (index !== undefined) return this.#byIndex.get(index);
    if (id !== undefined) return this.#calls.find((call) => call.id === id);
    return name === undefined ? this.#calls.at(-1) : undefined;
  }
}
