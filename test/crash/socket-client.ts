/** Clients that keep a WebSocket and continue their own responses on it, and on the next one when it has ended. */
import { setTimeout as sleep } from 'node:timers/promises';
import { MASTER_KEY } from '../e2e/gateway-process.ts';
import { openSocket, type TestSocket } from '../support/response-socket.ts';
import type { KnownResponse } from './check-responses.ts';
import { outputText, type Violation } from './evidence.ts';
import type { Random } from './random.ts';

const MODELS = ['llamacpp/small', 'llamacpp/small-pace-4', 'openai/small', 'openai/small-pace-4'] as const;
const PAUSE_MS = 30;

/** The last response of a chain, which the next turn continues. */
interface Last {
  readonly id: string;
  readonly model: string;
  /** In the first turn of the chain. */
  readonly word: string;
  readonly isStored: boolean;
}

/** One client, over all rounds. */
export class SocketClient {
  readonly #chance: Random;
  #last: Last | undefined;
  #seen: KnownResponse[] = [];
  #violations: Violation[] = [];
  /** Turns whose end has arrived. */
  turns = 0;

  constructor(chance: Random) {
    this.#chance = chance;
  }

  /** @param urlOf a gateway for the next socket; undefined when none runs */
  async run(urlOf: () => string | undefined, stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      const url = urlOf();
      // The gateway may be gone.
      const socket = url === undefined ? undefined : await openSocket(url, MASTER_KEY).catch(() => undefined);
      if (socket === undefined) {
        // A time: until a gateway runs again.
        await sleep(PAUSE_MS);
        continue;
      }
      // Only the socket itself remembered it.
      if (this.#last?.isStored === false) this.#last = undefined;
      await this.#turns(socket, stopped).catch(() => {});
      socket.socket.terminate();
    }
  }

  /** The responses that have completed since the last call. */
  known(): KnownResponse[] {
    return this.#seen.splice(0);
  }

  violations(): Violation[] {
    return this.#violations.splice(0);
  }

  /** Rejects when the socket ends. */
  async #turns(socket: TestSocket, stopped: () => boolean): Promise<void> {
    for (let left = this.#chance.between(1, 20); left > 0 && !stopped(); left--) {
      const last = this.#chance.happens(0.2) ? undefined : this.#last;
      const word = last?.word ?? `w${this.#chance.between(1000, 999_999)}`;
      const model = last?.model ?? this.#chance.oneOf(MODELS);
      const isStored = !this.#chance.happens(0.4);
      const input = last === undefined ? `My word is ${word}. Tell me something of it.` : 'What is my word?';
      const store = isStored ? {} : { store: false };
      const end = await socket.turn({ model, input, previous_response_id: last?.id, ...store });
      this.turns += 1;
      this.#last = undefined;
      if (end.type !== 'response.completed') continue;
      const { response } = end;
      if (last !== undefined && !outputText(response).includes(word)) {
        this.#violations.push({ check: 'sockets', what: `${response.id}: the answer does not know ${word}` });
      }
      // A chain with a turn that is not stored has it in the memory of its socket only.
      this.#last = { id: response.id, model, word, isStored: isStored && last?.isStored !== false };
      this.#seen.push({ id: response.id, seen: response, text: '', exchangeId: undefined, stored: isStored });
    }
  }
}
