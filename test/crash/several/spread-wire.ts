/** One client, each of whose requests goes to any of the gateways, as behind a load balancer without affinity. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer, SentRequest } from '../evidence.ts';
import type { Random } from '../random.ts';
import { type Wire, WireClient } from '../wire-client.ts';
import type { Member } from './member.ts';

const PAUSE_MS = 30;
/** How often a gateway is chosen that does not answer at present. */
const SILENT = 0.1;

export class SpreadWire implements Wire {
  readonly #members: readonly Member[];
  readonly #chance: Random;
  readonly #wires = new Map<string, WireClient>();
  readonly #connections: number;

  /** @param connections to each gateway, for those whose connections are spread over worker processes */
  constructor(members: readonly Member[], chance: Random, connections = 1) {
    this.#members = members;
    this.#chance = chance;
    this.#connections = connections;
  }

  async ask(request: SentRequest): Promise<Answer> {
    for (;;) {
      const member = this.choose();
      if (member?.url !== undefined) return this.askAt(member.url, request);
      // No gateway runs.
      await sleep(PAUSE_MS);
    }
  }

  /** @param url of a gateway */
  async askAt(url: string, request: SentRequest): Promise<Answer> {
    const name = `${url} ${this.#chance.between(1, this.#connections)}`;
    const wire = this.#wires.get(name) ?? new WireClient(url);
    this.#wires.set(name, wire);
    const answer = await wire.ask(request);
    if (answer.status === undefined) await sleep(PAUSE_MS);
    return answer;
  }

  /** A gateway that runs. */
  choose(): Member | undefined {
    const running = this.#members.filter(({ runs }) => runs);
    for (;;) {
      const [first, ...others] = running;
      if (first === undefined) return undefined;
      const member = this.#chance.oneOf([first, ...others]);
      if (!member.isSilent || running.every(({ isSilent }) => isSilent) || this.#chance.happens(SILENT)) return member;
    }
  }

  /** Other gateways answer. */
  isOver(): boolean {
    return false;
  }

  close(): void {
    for (const wire of this.#wires.values()) wire.close();
    this.#wires.clear();
  }
}
