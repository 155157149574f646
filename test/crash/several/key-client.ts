/** Keys that are created, used and deactivated through any gateway, while others use them through every one. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, objectOf, type SentRequest } from '../evidence.ts';
import type { Random } from '../random.ts';
import type { KeyHistory, KeyProbe } from './check-keys.ts';
import type { Member } from './member.ts';
import { SpreadWire } from './spread-wire.ts';

const PROBERS = 5;
/** How long a deactivated key is used after that was confirmed. */
const USED_ON_MS = 1500;

export class KeyClient {
  readonly #members: readonly Member[];
  readonly #chance: Random;
  readonly #name: string;
  /** Times of confirmed changes. */
  readonly changes: { readonly from: number; readonly to: number }[] = [];
  #histories: KeyHistory[] = [];
  #count = 0;

  constructor(name: string, chance: Random, members: readonly Member[]) {
    this.#name = name;
    this.#chance = chance;
    this.#members = members;
  }

  /** One key after another until `stopped` returns true. */
  async run(wire: SpreadWire, stopped: () => boolean): Promise<void> {
    while (!stopped()) await this.#oneKey(wire, stopped);
  }

  /** Those since the last call. */
  histories(): readonly KeyHistory[] {
    return this.#histories.splice(0);
  }

  async #oneKey(wire: SpreadWire, stopped: () => boolean): Promise<void> {
    const chance = this.#chance;
    const created = await wire.ask(this.#request('POST', '/admin/auth-keys', { name: this.#newId('key') }));
    const { id, value } = (created.status === 201 && created.end === 'whole' && objectOf(created.body)) || {};
    if (typeof id !== 'string' || typeof value !== 'string') return;
    this.#noteChange(created);
    const history: KeyHistory = {
      id,
      createdAt: created.endedAt,
      deactivatedAt: Number.POSITIVE_INFINITY,
      confirmedAt: undefined,
      probes: [],
    };
    this.#histories.push(history);
    const uses = { over: false };
    const probers = Array.from({ length: PROBERS }, () => this.#use(value, history.probes, () => uses.over));
    await sleep(chance.between(50, 500));
    history.deactivatedAt = performance.now();
    while (history.confirmedAt === undefined && !stopped()) {
      const deactivated = await wire.ask(this.#request('POST', `/admin/auth-keys/${id}/deactivate`));
      if (deactivated.end !== 'whole' || (deactivated.status ?? 500) >= 300) continue;
      this.#noteChange(deactivated);
      history.confirmedAt = deactivated.endedAt;
    }
    await sleep(chance.between(100, USED_ON_MS));
    uses.over = true;
    await Promise.all(probers);
  }

  #noteChange({ sentAt, endedAt }: Answer): void {
    this.changes.push({ from: sentAt, to: endedAt });
  }

  /** Through every gateway, those that do not answer at present too. */
  async #use(value: string, probes: KeyProbe[], over: () => boolean): Promise<void> {
    const wire = new SpreadWire(this.#members, this.#chance, 2);
    const headers = { authorization: `Bearer ${value}` };
    while (!over()) {
      const running = this.#members.filter(({ runs }) => runs);
      const member = running[this.#chance.between(0, Math.max(0, running.length - 1))];
      if (member?.url === undefined) {
        await sleep(20);
        continue;
      }
      const request = { ...this.#probe(), headers };
      const { status, sentAt, endedAt } = await wire.askAt(member.url, request);
      probes.push({
        requestId: request.requestId ?? '',
        what: request.path,
        gateway: member.index,
        status,
        sentAt,
        endedAt,
      });
      await sleep(this.#chance.between(0, 40));
    }
    wire.close();
  }

  #probe(): SentRequest {
    const kind = this.#chance.between(1, 3);
    if (kind === 1) return this.#request('GET', '/v1/models');
    const stream = kind === 2;
    const messages = [{ role: 'user', content: 'Reply with exactly: used' }];
    const model = stream ? 'llamacpp/small-pace-4' : 'llamacpp/small';
    return this.#request('POST', '/v1/chat/completions', { model, stream, messages });
  }

  #request(method: 'GET' | 'POST', path: string, json?: object): SentRequest {
    const facts = { route: 'retrieve', provider: 'llamacpp', stream: false, requestId: this.#newId('r') } as const;
    return { ...facts, method, path, ...(json !== undefined && { body: Buffer.from(JSON.stringify(json)) }) };
  }

  #newId(what: string): string {
    this.#count += 1;
    return `${this.#name}-${what}${this.#count}`;
  }
}
