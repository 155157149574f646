/**
 * A history as a company leaves it: people with sessions, keys, providers that fail now and then, refusals, guardrails
 * and cached answers, spread over a year with most of it in the last month. The same for the same seed and times.
 */
import { createHash } from 'node:crypto';
import { sentence } from '../../infra/simulated-provider/words.ts';
import { KEY_PREFIX } from '../../src/commands/access/key-directory.ts';
import { keyCreated } from '../../src/events/catalogue/access.ts';
import { cacheHit } from '../../src/events/catalogue/cache.ts';
import * as catalogue from '../../src/events/catalogue/exchange.ts';
import { guardrailApplied } from '../../src/events/catalogue/guardrail.ts';
import { responseStored } from '../../src/events/catalogue/response.ts';
import { type EventContext, type NewEvent, streamName, type UserPath } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import type { EventLog, StreamWrite } from '../../src/events/log.ts';
import { createChance, type Random } from '../crash/random.ts';

export interface PlausibleHistory {
  readonly exchanges: number;
  readonly seed?: number;
  /** Milliseconds since the epoch at which the last exchange ends. Default: now. */
  readonly until?: number;
  /** Default 365. */
  readonly days?: number;
  /** Part of the exchanges that are in the last 30 days. Default 0.7. */
  readonly recent?: number;
  readonly onProgress?: (done: number) => void;
}

export interface PlausibleKey {
  readonly id: string;
  readonly name: string;
  readonly userPath: UserPath;
  readonly labels: readonly string[];
  /** What a client sends. The secret of a test: everybody who reads this file knows it. */
  readonly value: string;
  /** Whether it is a key of an administrator of its user path. */
  readonly isAdministrator: boolean;
}

const HOUR_MS = 3_600_000;
const DAYS_OF_RECENT = 30;
const EXCHANGES_OF_APPEND = 250;

const teams = {
  engineering: ['search', 'payments', 'platform', 'mobile'],
  research: ['alice', 'bob', 'chen'],
  sales: ['north', 'south', 'partners'],
  support: ['tier-1', 'tier-2'],
  legal: ['contracts'],
  marketing: ['web', 'events'],
} as const;

export const plausibleKeys: readonly PlausibleKey[] = Object.entries(teams).flatMap(([team, parts], place) =>
  ['', ...parts].map((part) => {
    const name = part === '' ? `${team} service` : `${team} ${part}`;
    const secret = createHash('sha256').update(name).digest('base64url');
    return {
      id: `00000000-0000-4000-8000-${createHash('sha256').update(name).digest('hex').slice(0, 12)}`,
      name,
      userPath: `/${team}${part === '' ? '' : `/${part}`}` as UserPath,
      labels: [`team:${team}`, ...(part === '' ? ['batch'] : []), ...(place % 2 === 0 ? ['cost-center:4711'] : [])],
      value: `${KEY_PREFIX}${secret}`,
      isAdministrator: part === '',
    };
  }),
);

interface Model {
  readonly provider: string;
  readonly type: string;
  readonly model: string;
  readonly dialect: 'chat' | 'responses' | 'embeddings';
  /** Of 100 requests. */
  readonly share: number;
  /** Nano-dollars of a token, for input and output; null without a price. */
  readonly price: readonly [number, number] | null;
  /** Typical milliseconds to the first byte, and for a token of output. */
  readonly speed: readonly [number, number];
}

const models: readonly Model[] = [
  {
    provider: 'openai',
    type: 'openai',
    model: 'gpt-4o',
    dialect: 'chat',
    share: 24,
    price: [2500, 10000],
    speed: [420, 12],
  },
  {
    provider: 'openai',
    type: 'openai',
    model: 'gpt-4o-mini',
    dialect: 'chat',
    share: 26,
    price: [150, 600],
    speed: [280, 7],
  },
  {
    provider: 'openai',
    type: 'openai',
    model: 'gpt-4.1',
    dialect: 'responses',
    share: 12,
    price: [2000, 8000],
    speed: [510, 11],
  },
  {
    provider: 'anthropic',
    type: 'anthropic',
    model: 'claude-sonnet-4-5',
    dialect: 'chat',
    share: 18,
    price: [3000, 15000],
    speed: [640, 14],
  },
  {
    provider: 'groq',
    type: 'groq',
    model: 'llama-3.3-70b-versatile',
    dialect: 'chat',
    share: 6,
    price: [590, 790],
    speed: [160, 3],
  },
  {
    provider: 'llamacpp',
    type: 'llamacpp',
    model: 'qwen2.5-7b-instruct',
    dialect: 'chat',
    share: 5,
    price: null,
    speed: [350, 22],
  },
  {
    provider: 'openai',
    type: 'openai',
    model: 'text-embedding-3-small',
    dialect: 'embeddings',
    share: 9,
    price: [20, 0],
    speed: [110, 0],
  },
];
const byShare = models.flatMap((model) => Array.from({ length: model.share }, () => model));

const paths = { chat: '/v1/chat/completions', responses: '/v1/responses', embeddings: '/v1/embeddings' } as const;
const agents = ['OpenAI/Python 2.8.0', 'OpenAI/JS 7.55.0', 'ai-sdk/openai 4.0.118', 'curl/8.14.1', 'langchain/1.2'];
const workflow = { id: 'f0000000-0000-4000-8000-000000000001', version: 3, scope: 'path:/support' } as const;

/** Weights of the hours of a day and the days of a week (Sunday first), in UTC. */
const ofHour = [2, 1, 1, 1, 1, 2, 4, 9, 16, 20, 21, 19, 16, 19, 21, 20, 18, 14, 9, 7, 6, 5, 4, 3];
const ofDay = [3, 10, 11, 11, 10, 9, 3];

/** Appends the history in the order of time. @returns the number of appended events */
export async function writePlausibleHistory(log: EventLog, options: PlausibleHistory): Promise<number> {
  const { exchanges, seed = 1, until = Date.now(), onProgress = () => {} } = options;
  const chance = createChance(seed);
  const people = peopleOf(chance);
  const starts = startTimes(options, until, chance);
  let writes: StreamWrite[] = keyWrites(starts[0] ?? until);
  let events = 0;
  for (const [index, at] of starts.entries()) {
    writes.push(...exchange(index, Math.min(at, until - 1), chance, people));
    if (index % EXCHANGES_OF_APPEND !== EXCHANGES_OF_APPEND - 1 && index !== exchanges - 1) continue;
    await log.append(writes);
    for (const write of writes) events += write.events.length;
    writes = [];
    onProgress(index + 1);
  }
  return events;
}

/** Ascending, in milliseconds since the epoch. */
function startTimes(
  { exchanges, days = 365, recent = 0.7 }: PlausibleHistory,
  until: number,
  chance: Random,
): number[] {
  const hours = Array.from({ length: days * 24 }, (_, hour) => until - (days * 24 - hour) * HOUR_MS);
  const isRecent = (at: number) => at >= until - DAYS_OF_RECENT * 24 * HOUR_MS;
  const weights = hours.map((at) => {
    const date = new Date(at);
    // The company grows over the year.
    const growth = 0.4 + (0.6 * (at - (hours[0] ?? 0))) / (days * 24 * HOUR_MS);
    return (ofHour[date.getUTCHours()] ?? 1) * (ofDay[date.getUTCDay()] ?? 1) * growth;
  });
  const sumOf = (which: (at: number) => boolean) =>
    hours.reduce((sum, at, hour) => sum + (which(at) ? (weights[hour] ?? 0) : 0), 0);
  const [ofRecent, ofOthers] = [sumOf(isRecent), sumOf((at) => !isRecent(at))];
  const times: number[] = [];
  let due = 0;
  for (const [hour, at] of hours.entries()) {
    const share = ofOthers === 0 ? 1 : isRecent(at) ? recent : 1 - recent;
    due += (exchanges * share * (weights[hour] ?? 0)) / (isRecent(at) ? ofRecent : ofOthers);
    const count = (hour === hours.length - 1 ? exchanges : Math.min(exchanges, Math.floor(due))) - times.length;
    for (let place = 0; place < count; place++) {
      times.push(at + ((place + chance.between(0, 999) / 1000) / count) * HOUR_MS);
    }
  }
  return times;
}

function keyWrites(at: number): StreamWrite[] {
  return plausibleKeys.map(({ id, name, userPath, labels, value, isAdministrator }) => ({
    stream: streamName('key', id),
    events: [
      {
        ...keyCreated.create(
          {
            id,
            name,
            userPath,
            labels: [...labels],
            allowedModels: [],
            dashboardAccess: isAdministrator,
            secretHash: createHash('sha256').update(value.slice(KEY_PREFIX.length)).digest('hex'),
            lastCharacters: value.slice(-4),
          },
          { actor: 'master' },
        ),
        at: at - 60_000,
      },
    ],
    expectedRevision: 'any',
  }));
}

interface Turn {
  readonly question: string;
  readonly answer: string;
}

/** A user of one key, with a session at a time. */
interface Person {
  readonly key: PlausibleKey | undefined;
  readonly ip: string;
  readonly agent: string;
  session: string;
  turnsLeft: number;
  turns: Turn[];
  /** Of the last turn with the Responses API. */
  responseId: string | null;
  cachedExchange: string;
}

const PEOPLE = 240;

function peopleOf(chance: Random): readonly Person[] {
  return Array.from({ length: PEOPLE }, (_, number) => ({
    // One in forty calls with the master key.
    key: number % 40 === 39 ? undefined : plausibleKeys[skewed(chance, plausibleKeys.length)],
    ip: `10.20.${number >> 6}.${number % 250}`,
    agent: agents[number % agents.length] ?? '',
    session: '',
    turnsLeft: 0,
    turns: [],
    responseId: null,
    cachedExchange: '',
  }));
}

/** From 0 to below the count; small numbers are more frequent. */
function skewed(chance: Random, count: number): number {
  return Math.min(count - 1, Math.floor((chance.between(0, 9999) / 10_000) ** 2.2 * count));
}

const modelTurns = 6;

function exchange(index: number, at: number, chance: Random, people: readonly Person[]): StreamWrite[] {
  const person = people[skewed(chance, people.length)];
  const model = byShare[chance.between(0, byShare.length - 1)];
  if (person === undefined || model === undefined) return [];
  const { key } = person;
  const id = mintEventId(at);
  const context: EventContext = {
    actor: key === undefined ? 'master' : `key:${key.id}`,
    requestId: `req-${seededId(index)}`,
    ...(key === undefined ? {} : { userPath: key.userPath }),
  };
  if (person.turnsLeft === 0) {
    person.session = `session-${seededId(index)}`;
    person.turnsLeft = chance.between(1, 12);
    person.turns = [];
    person.responseId = null;
  }
  person.turnsLeft -= 1;
  const labels = key?.labels;
  const sessionId = model.dialect === 'embeddings' ? undefined : person.session;
  const endpoint = paths[model.dialect];
  const guarded = key?.userPath.startsWith('/support') === true;
  const question = sentence(index, chance.between(6, 40));
  const stream = model.dialect === 'chat' && chance.happens(0.35);
  const body = requestBody(model, question, person, stream);
  const events: NewEvent[] = [];
  let after = 0;
  const note = (event: NewEvent, laterMs: number) => {
    after += laterMs;
    events.push({ ...event, at: at + after, id: mintEventId(at + after) });
  };
  const write = (more: readonly StreamWrite[] = []): StreamWrite[] => [
    { stream: streamName('exchange', id), events, expectedRevision: 'any' },
    ...more,
  ];
  const requested = chance.happens(0.2) && model.model === 'gpt-4o-mini' ? 'fast' : `${model.provider}/${model.model}`;
  note(
    catalogue.requestReceived.create(
      {
        dialect: model.dialect,
        method: 'POST',
        path: endpoint,
        headers: { 'user-agent': person.agent, 'content-type': 'application/json' },
        model: requested,
        stream,
        clientIp: person.ip,
        authMethod: key === undefined ? 'master_key' : 'api_key',
        capture: 'full',
        ...(guarded ? { workflow } : {}),
        ...(labels === undefined ? {} : { labels }),
        ...(sessionId === undefined ? {} : { sessionId }),
      },
      context,
      Buffer.from(JSON.stringify(body)),
    ),
    0,
  );
  const refusal = refusalOf(chance);
  if (refusal !== undefined) {
    note(catalogue.requestRefused.create({ ...refusal, param: null, durationMs: 0.8 }, context), 0.8);
    return write();
  }
  const { provider, type: providerType } = model;
  const through = requested === 'fast' ? { through: ['fast'] } : {};
  note(
    catalogue.modelResolved.create({ requested, provider, providerType, model: model.model, ...through }, context),
    0.2,
  );
  const edited = chance.happens(0.06);
  if (guarded) {
    const blocked = chance.happens(0.015);
    note(verdictOf(blocked ? 'block' : chance.happens(0.03) ? 'warn' : 'allow', edited, context, body), 3);
    if (blocked) {
      const message = 'The request contains a payment card number.';
      const facts = { status: 403, type: 'invalid_request_error', code: 'guardrail_blocked', param: null, message };
      note(catalogue.requestRefused.create({ ...facts, durationMs: after }, context), 0.3);
      return write();
    }
  }
  const inputTokens = 40 + chance.between(0, 600) + person.turns.length * 90;
  const outputTokens = model.dialect === 'embeddings' ? 0 : chance.between(8, 420);
  const usage = (cacheType?: 'exact' | 'semantic') => {
    // One answer in fifty reports no usage.
    const known = !chance.happens(0.02);
    const cost = known && model.price !== null ? costOf(model.price, inputTokens, outputTokens) : undefined;
    const free = { inputCost: '0', outputCost: '0', totalCost: '0' };
    const unknown = { inputCost: null, outputCost: null, totalCost: null };
    const count = (tokens: number) => (known ? tokens : null);
    return catalogue.usageRecorded.create(
      {
        provider,
        providerType,
        model: model.model,
        endpoint,
        ...(labels === undefined ? {} : { labels }),
        ...(sessionId === undefined ? {} : { sessionId }),
        ...(cacheType === undefined ? {} : { cacheType, savedCost: cost?.totalCost ?? null }),
        inputTokens: count(inputTokens),
        outputTokens: count(outputTokens),
        totalTokens: count(inputTokens + outputTokens),
        cachedInputTokens: count(person.turns.length > 2 ? Math.floor(inputTokens * 0.6) : 0),
        cacheWriteInputTokens: count(0),
        cacheWrite1hInputTokens: null,
        reasoningTokens: count(0),
        audioInputTokens: null,
        audioOutputTokens: null,
        imageInputTokens: null,
        imageOutputTokens: null,
        acceptedPredictionTokens: null,
        rejectedPredictionTokens: null,
        source: known ? 'provider' : 'unknown',
        raw: known ? { prompt_tokens: inputTokens, completion_tokens: outputTokens } : null,
        ...(cacheType === undefined ? (cost ?? unknown) : free),
        ...(cost === undefined ? {} : { priceSource: 'snapshot:2026-11-01' }),
      },
      context,
    );
  };
  const answer = sentence(index + 7, Math.max(4, Math.min(60, outputTokens)));
  const completed = { provider, model: model.model, finishReason: 'stop' as const };
  if (person.cachedExchange !== '' && chance.happens(0.08)) {
    const cacheType = chance.happens(0.65) ? 'exact' : 'semantic';
    const storedAt = Math.floor(at - 60_000);
    const digest = createHash('sha256').update(question).digest('hex');
    note(cacheHit.create({ exchangeId: person.cachedExchange, cacheType, digest, storedAt }, context), 1.2);
    const end = { ...completed, status: 200, attempt: 0, chunks: 1, bytes: answer.length };
    note(catalogue.exchangeCompleted.create({ ...end, firstByteMs: after, durationMs: after + 0.4 }, context), 0.4);
    note(usage(cacheType), 0);
    return write();
  }
  const [firstByte, perToken] = model.speed;
  let attempt = 1;
  const call = (kind: 'primary' | 'retry') =>
    note(
      catalogue.attemptStarted.create(
        { attempt, kind, provider, providerType, model: model.model, dialect: model.dialect },
        context,
      ),
      0.5,
    );
  call('primary');
  const failing = chance.between(0, 999);
  if (failing < 55) {
    const status = chance.oneOf([500, 502, 503, 503, 504, 429]);
    const failed = { attempt, status, code: status === 429 ? 'rate_limit_exceeded' : 'overloaded' };
    const message = `The provider answered with ${status}.`;
    note(catalogue.attemptFailed.create({ ...failed, message, durationMs: after + 300 }, context), 300);
    if (failing < 18) {
      const facts = { status: status === 429 ? 429 : 502, type: 'provider_error', code: failed.code, message };
      const end = { ...facts, reason: 'provider_error' as const, chunks: 0, durationMs: after };
      note(catalogue.exchangeFailed.create(end, context), 0.4);
      return write();
    }
    attempt = 2;
    call('retry');
  }
  const firstByteMs = firstByte * (0.6 + chance.between(0, 1000) / 900) * (chance.happens(0.03) ? 6 : 1);
  const responseId = model.dialect === 'responses' ? `resp_${seededId(index)}${seededId(index + 1)}` : undefined;
  const reply = replyOf(model, { answer, inputTokens, outputTokens, responseId, index, stream, at });
  note(catalogue.chunkReceived.create({ attempt, index: 0 }, context, reply[0]), firstByteMs);
  for (const [place, piece] of reply.slice(1).entries()) {
    const pace = (outputTokens * perToken) / (reply.length - 1);
    note(catalogue.chunkReceived.create({ attempt, index: place + 1 }, context, piece), pace);
  }
  if (reply.length === 1) after += outputTokens * perToken;
  const bytes = reply.reduce((sum, piece) => sum + piece.length, 0);
  const chunks = reply.length;
  const ending = chance.between(0, 999);
  if (ending < 6) {
    note(catalogue.clientDisconnected.create({ chunks, bytes, durationMs: after, responseId }, context), 0.2);
    note(usage(), 0);
    return write();
  }
  if (ending < 10) {
    const error = { type: 'provider_error', code: null, message: 'The stream ended early.' };
    const end = { ...error, status: stream ? 200 : 502, reason: 'stream_broken' as const, chunks, durationMs: after };
    note(catalogue.exchangeFailed.create(end, context), 0.2);
    note(usage(), 0);
    return write();
  }
  if (guarded) note(verdictOf('allow', false, context), 0.6);
  const end = { ...completed, status: 200, attempt, chunks, bytes, responseId };
  note(catalogue.exchangeCompleted.create({ ...end, firstByteMs, durationMs: after }, context), 0.2);
  note(usage(), 0);
  person.turns.push({ question, answer });
  if (person.turns.length > modelTurns) person.turns.shift();
  person.cachedExchange = id;
  if (responseId === undefined) return write();
  const stored = responseWrite(model, {
    id,
    responseId,
    question,
    reply: reply[0] ?? Buffer.alloc(0),
    person,
    context,
  });
  person.responseId = responseId;
  const last = stored.events[0];
  return write(
    last === undefined ? [] : [{ ...stored, events: [{ ...last, at: at + after, id: mintEventId(at + after) }] }],
  );
}

/** Eleven digits that differ by number. */
function seededId(number: number): string {
  return (Math.imul(number + 1, 0x9e3779b1) >>> 0).toString(36).padStart(7, '0') + number.toString(36).padStart(4, '0');
}

function refusalOf(chance: Random) {
  const kind = chance.between(0, 999);
  if (kind < 14) {
    const message = 'The key may make 600 requests per minute. Try again in 12 seconds.';
    return { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', message };
  }
  if (kind < 20) {
    return { status: 429, type: 'rate_limit_error', code: 'budget_exceeded', message: 'The monthly budget is spent.' };
  }
  if (kind < 25) {
    const message = "The model 'gpt-5-preview' does not exist or the key may not use it.";
    return { status: 404, type: 'not_found_error', code: 'model_not_found', message };
  }
  if (kind < 30) {
    return { status: 400, type: 'invalid_request_error', code: 'missing_parameter', message: "'messages' is missing." };
  }
  return undefined;
}

function verdictOf(verdict: 'allow' | 'warn' | 'block', edited: boolean, context: EventContext, body?: object) {
  const isPrompt = body !== undefined;
  const changed = isPrompt && edited && verdict !== 'block';
  const strongest = verdict === 'allow' ? {} : { decidedBy: 'personal-data', code: `pii_${verdict}` };
  const run = {
    step: 0,
    guardrail: 'personal-data',
    type: 'pii',
    verdict,
    ...(verdict === 'allow' ? {} : { code: `pii_${verdict}`, message: 'Personal data was found.' }),
    edited: changed,
    ...(changed || verdict !== 'allow' ? { findings: { [verdict === 'block' ? 'credit_card' : 'email']: 1 } } : {}),
    durationNs: 240_000,
  };
  const other = { step: 1, guardrail: 'house-rules', type: 'system_prompt', edited: false, durationNs: 18_000 };
  return guardrailApplied.create(
    {
      phase: isPrompt ? 'prompt' : 'response',
      ...(isPrompt ? {} : { attempt: 1 }),
      verdict,
      ...strongest,
      edited: changed,
      runs: isPrompt ? [run, { ...other, verdict: 'allow' }] : [run],
    },
    context,
    changed ? Buffer.from(JSON.stringify({ ...body, user: '[EMAIL_1]' })) : undefined,
  );
}

function costOf([input, output]: readonly [number, number], inputTokens: number, outputTokens: number) {
  const [inputCost, outputCost] = [input * inputTokens, output * outputTokens];
  return {
    inputCost: String(inputCost),
    outputCost: String(outputCost),
    totalCost: String(inputCost + outputCost),
  };
}

function requestBody({ model, dialect }: Model, question: string, { turns, responseId }: Person, stream: boolean) {
  if (dialect === 'embeddings') return { model, input: question };
  if (dialect === 'responses') {
    return { model, input: question, ...(responseId === null ? {} : { previous_response_id: responseId }) };
  }
  const earlier = turns.slice(-2).flatMap((turn) => [
    { role: 'user', content: turn.question },
    { role: 'assistant', content: turn.answer },
  ]);
  const messages = [{ role: 'system', content: 'You are helpful.' }, ...earlier, { role: 'user', content: question }];
  return { model, messages, ...(stream ? { stream } : {}) };
}

interface Reply {
  readonly answer: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly responseId: string | undefined;
  readonly index: number;
  readonly stream: boolean;
  readonly at: number;
}

/** What the provider sends: one body, or the events of a stream. */
function replyOf({ model, dialect }: Model, reply: Reply): readonly Buffer[] {
  const { answer, inputTokens, outputTokens, responseId, index, stream, at } = reply;
  const json = (value: unknown) => Buffer.from(JSON.stringify(value));
  const created = Math.floor(at / 1000);
  const usage = {
    prompt_tokens: inputTokens,
    completion_tokens: outputTokens,
    total_tokens: inputTokens + outputTokens,
  };
  if (dialect === 'embeddings') {
    const data = [{ object: 'embedding', index: 0, embedding: [0.01, -0.02, 0.03, 0.04] }];
    return [json({ object: 'list', data, model, usage: { prompt_tokens: inputTokens, total_tokens: inputTokens } })];
  }
  if (dialect === 'responses') {
    const content = [{ type: 'output_text', text: answer, annotations: [] }];
    const output = [{ type: 'message', id: `msg_${seededId(index)}`, role: 'assistant', status: 'completed', content }];
    const counts = { input_tokens: inputTokens, output_tokens: outputTokens, total_tokens: inputTokens + outputTokens };
    const facts = { id: responseId, object: 'response', created_at: created, status: 'completed', model };
    return [json({ ...facts, output, usage: counts })];
  }
  const id = `chatcmpl-${seededId(index)}`;
  if (!stream) {
    const choices = [{ index: 0, message: { role: 'assistant', content: answer }, finish_reason: 'stop' }];
    return [json({ id, object: 'chat.completion', created, model, choices, usage })];
  }
  const frame = (delta: object, finish_reason: string | null, more: object = {}) => {
    const choices = [{ index: 0, delta, finish_reason }];
    const chunk = { id, object: 'chat.completion.chunk', created, model, choices, ...more };
    return Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  const half = answer.indexOf(' ', answer.length / 2);
  return [
    frame({ role: 'assistant', content: answer.slice(0, half) }, null),
    frame({ content: answer.slice(half) }, null),
    frame({}, 'stop', { usage }),
    Buffer.from('data: [DONE]\n\n'),
  ];
}

interface StoredTurn {
  readonly id: string;
  readonly responseId: string;
  readonly question: string;
  readonly reply: Buffer;
  readonly person: Person;
  readonly context: EventContext;
}

function responseWrite(model: Model, { id, responseId, question, reply, person, context }: StoredTurn): StreamWrite {
  const input = [
    { id: `msg_in_${responseId}`, type: 'message', role: 'user', content: [{ type: 'input_text', text: question }] },
  ];
  const { provider, type: providerType } = model;
  const facts = { status: 'completed', exchangeId: id, provider, providerType, model: model.model } as const;
  const body = Buffer.from(`{"response":${reply.toString()},"input_items":${JSON.stringify(input)}}`);
  return {
    stream: streamName('response', responseId),
    events: [responseStored.create({ ...facts, native: true, previousResponseId: person.responseId }, context, body)],
    expectedRevision: 'any',
  };
}
