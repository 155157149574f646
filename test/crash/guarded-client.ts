/**
 * Clients whose requests have personal values, under paths whose workflows have guardrails: every dialect, JSON and
 * streams, turns that continue earlier ones, and requests repeated under one idempotency key, also over a crash.
 */
import { isObject } from '../../src/json/is-object.ts';
import type { AnswerUnderKey } from './check-background-and-repeated.ts';
import { isWholeAnswer, PERSONAL_DOMAIN } from './check-guarded.ts';
import { type Conversation, objectOf, type ProviderName, type SentRequest, streamedResponse } from './evidence.ts';
import { type GuardedPath, type GuardedWorkflows, guardedPaths, replaced } from './guarded-workflows.ts';
import type { Random } from './random.ts';
import type { Wire } from './wire-client.ts';

const PROVIDERS = ['llamacpp', 'openai'] as const;
const MODELS = ['small', 'small-pace-1', 'small-pace-4', 'small-pace-15'] as const;
const QUESTION = 'What is my address?';
const REMEMBERED = 8;

/** A response that its client may continue. */
interface Kept {
  readonly userPath: GuardedPath;
  /** The personal value in the first turn. */
  readonly value: string;
  readonly id: string;
  readonly itemId: string | undefined;
  readonly conversation: string | undefined;
}

interface Facts extends Pick<SentRequest, 'route' | 'stream' | 'recalls'> {
  readonly userPath: GuardedPath;
  readonly texts: readonly string[];
  readonly value: string;
  readonly conversation?: string | undefined;
}

/** A request with the facts that a later turn needs. */
interface Sent {
  readonly request: SentRequest;
  readonly facts: Facts;
}

/** One client, over all rounds. */
export class GuardedClient {
  readonly #name: string;
  readonly #chance: Random;
  readonly #workflows: GuardedWorkflows;
  /** Whether this client posts new versions of a workflow: one client does, so that their order is known. */
  readonly #posts: boolean;
  readonly #given = new Map<string, Buffer[]>();
  #kept: Kept[] = [];
  #repeatable: Sent[] = [];
  #count = 0;

  constructor(name: string, chance: Random, workflows: GuardedWorkflows, posts: boolean) {
    this.#name = name;
    this.#chance = chance;
    this.#workflows = workflows;
    this.#posts = posts;
  }

  /** Sends requests until `stopped` returns true; requests and answers go to `evidence`. */
  async run(wire: Wire, evidence: Conversation[], stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      if (this.#posts && this.#chance.happens(0.15)) await this.#workflows.change(wire, this.#chance);
      const sent = await this.#next(wire);
      const { request } = sent;
      const answer = await wire.ask(request);
      evidence.push({ request, answer });
      if (wire.isOver(answer)) return;
      if (!isWholeAnswer(request, answer)) continue;
      const { idempotencyKey: key } = request;
      if (key !== undefined) this.#given.set(key, [...(this.#given.get(key) ?? []), answer.body]);
      this.#remember(sent, answer.body);
    }
  }

  /** Every whole answer of each key. */
  given(): AnswerUnderKey[] {
    return [...this.#given].map(([key, answers]) => ({ key, answers }));
  }

  async #next(wire: Wire): Promise<Sent> {
    const chance = this.#chance;
    const kind = chance.between(1, 100);
    if (kind <= 15) return this.#again() ?? this.#chat('chat');
    if (kind <= 28) return this.#chat('chat');
    if (kind <= 40) return this.#chat('messages');
    if (kind <= 60) return this.#response(undefined);
    if (kind <= 70) return this.#response(await this.#newConversation(wire));
    return this.#followUp() ?? this.#response(undefined);
  }

  /** The same request under the same key, with an id of its own. */
  #again(): Sent | undefined {
    const sent = this.#repeatable[this.#chance.between(0, REMEMBERED - 1)];
    if (sent === undefined) return undefined;
    const { facts, request } = sent;
    const { userPath, texts } = facts;
    // The answer may be that of an earlier version.
    return {
      facts,
      request: { ...request, requestId: this.#newId('r'), guarded: { userPath, texts, leastVersion: 0 } },
    };
  }

  /** Sometimes with earlier turns in the request itself. */
  #chat(route: 'chat' | 'messages'): Sent {
    const made = this.#task();
    const isLater = this.#chance.happens(0.3);
    const turns = [made.task, made.said, QUESTION].slice(0, isLater ? 3 : 1);
    const messages = turns.map((content, index) => ({ role: index === 1 ? 'assistant' : 'user', content }));
    const path = route === 'chat' ? '/v1/chat/completions' : '/v1/messages';
    const texts = isLater ? [`Your address is ${made.value}.`] : this.#textsOf(made);
    const facts = { ...made, route, texts };
    return this.#post(path, facts, { messages, ...(route === 'messages' && { max_tokens: 500 }) });
  }

  #response(conversation: { readonly id: string; readonly userPath: GuardedPath } | undefined): Sent {
    const made = this.#task(conversation?.userPath);
    const facts = { ...made, route: 'responses' as const, texts: this.#textsOf(made), conversation: conversation?.id };
    return this.#post('/v1/responses', facts, {
      input: made.task,
      ...(conversation !== undefined && { conversation: conversation.id }),
    });
  }

  /** A question that only an earlier turn can answer, on any provider. */
  #followUp(): Sent | undefined {
    const chance = this.#chance;
    const kept = this.#kept[chance.between(0, REMEMBERED - 1)];
    if (kept === undefined) return undefined;
    const { userPath, value, conversation, id, itemId } = kept;
    const stream = chance.happens(0.6);
    const facts = { route: 'responses' as const, userPath, value, stream, recalls: value, conversation };
    // A repeated value keeps its placeholder.
    const question = chance.happens(0.3) ? `I am ${value}. ${QUESTION}` : QUESTION;
    const users = { role: 'user', content: question };
    const kind = chance.oneOf(['previous', 'conversation', 'item']);
    const continued =
      kind === 'item' && itemId !== undefined
        ? { input: [{ type: 'item_reference', id: itemId }, users] }
        : conversation !== undefined
          ? { input: [users], conversation }
          : { input: question, previous_response_id: id };
    return this.#post('/v1/responses', { ...facts, texts: [`Your address is ${value}.`] }, continued);
  }

  #post(path: string, facts: Facts, members: object): Sent {
    const chance = this.#chance;
    const { userPath, route, stream, texts, recalls } = facts;
    const provider: ProviderName = chance.oneOf(PROVIDERS);
    const json = { model: `${provider}/${stream ? chance.oneOf(MODELS) : 'small'}`, stream, ...members };
    const key = chance.happens(0.3) ? this.#newId('key') : undefined;
    const request: SentRequest = {
      ...{ route, provider, stream, path, method: 'POST', requestId: this.#newId('r') },
      ...(recalls !== undefined && { recalls }),
      ...(key !== undefined && { idempotencyKey: key }),
      ...(stream && chance.happens(0.06) && { leaveAfterBytes: chance.between(1, 3000) }),
      headers: headersOf(userPath),
      body: Buffer.from(JSON.stringify(json)),
      guarded: { userPath, texts, leastVersion: this.#workflows.acknowledged(userPath) },
    };
    const sent = { request, facts };
    if (key !== undefined) this.#repeatable = [sent, ...this.#repeatable].slice(0, REMEMBERED);
    return sent;
  }

  #task(userPath: GuardedPath = this.#chance.oneOf(guardedPaths)) {
    const chance = this.#chance;
    const value = `${this.#newId('v').replaceAll('-', '.')}@${PERSONAL_DOMAIN}`;
    const words = Array.from({ length: chance.between(1, 12) }, () =>
      chance.oneOf(['Falcon', 'Condor', 'Grüße', value]),
    );
    const said = `My address is ${value} and ${words.join(' ')}`;
    return { userPath, value, said, task: `Reply with exactly: ${said}`, stream: chance.happens(0.65) };
  }

  /** Whole answers do not pass the guardrail of the stream phase. */
  #textsOf({ said, stream, userPath }: { said: string; stream: boolean; userPath: GuardedPath }): string[] {
    const live = stream ? said.replaceAll(...replaced.stream) : said;
    const collected = live.replaceAll(...replaced.response);
    const texts = { [guardedPaths[0]]: [live], [guardedPaths[1]]: [collected], [guardedPaths[2]]: [live, collected] };
    return texts[userPath] ?? [];
  }

  async #newConversation(wire: Wire): Promise<{ id: string; userPath: GuardedPath } | undefined> {
    const userPath = this.#chance.oneOf(guardedPaths);
    const answer = await wire.ask({
      ...{ method: 'POST', path: '/v1/conversations', route: 'retrieve', provider: 'llamacpp', stream: false },
      ...{ requestId: this.#newId('r'), headers: headersOf(userPath), body: Buffer.from('{}') },
    });
    const id = answer.status === 200 && answer.end === 'whole' ? objectOf(answer.body)?.id : undefined;
    return typeof id === 'string' ? { id, userPath } : undefined;
  }

  #remember({ request, facts }: Sent, body: Buffer): void {
    if (request.route !== 'responses') return;
    const seen = request.stream ? streamedResponse(body).final : objectOf(body);
    if (seen?.status !== 'completed' || typeof seen.id !== 'string') return;
    const item: unknown = Array.isArray(seen.output) ? seen.output[0] : undefined;
    const { userPath, value, conversation, recalls } = facts;
    // Only the answer to a task states the value in a form that the provider recalls.
    const itemId = recalls === undefined && isObject(item) && typeof item.id === 'string' ? item.id : undefined;
    this.#kept = [{ userPath, value, conversation, id: seen.id, itemId }, ...this.#kept].slice(0, REMEMBERED);
  }

  #newId(what: string): string {
    this.#count += 1;
    return `${this.#name}-${what}${this.#count}`;
  }
}

function headersOf(userPath: string): Record<string, string> {
  return { 'x-gateway-user-path': userPath, 'anthropic-version': '2023-06-01' };
}
