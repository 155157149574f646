/**
 * Writes the seeded history: real requests to a real gateway in front of simulated providers, with a clock that jumps
 * from one group of requests to the next. It covers the two full weeks before today and today until now.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createSimulatedProvider, type SimulatedProvider } from '../../../../infra/simulated-provider/server.ts';
import { gatewayEnvironment, gatewayFlags } from '../../../../scripts/gateway-node.mjs';
import { MASTER_KEY } from '../../../e2e/gateway-process.ts';
import { compileCache, main } from '../../../support/main-program.ts';
import { houseStyle, type KeyName, keyPlans, preparations } from './callers.ts';
import { type Random, seededRandom } from './random.ts';
import { type Client, conversationTurns, pictureQuestion, requestKinds, type Sent, toolCall } from './requests.ts';
import { conversation, personal, questions } from './texts.ts';

/** Requests that are sent at the same time, at one moment of the history. */
const GROUP = 24;
const CLOCK_SPEED = 60;
const hour = 3_600_000;
const day = 24 * hour;

export interface SeededKey {
  readonly id: string;
  readonly value: string;
  readonly name: string;
  readonly path: string;
}

/** What tests need to know of the history. */
export interface HistoryFacts {
  readonly from: string;
  readonly until: string;
  readonly exchanges: number;
  readonly keys: Readonly<Record<KeyName, SeededKey>>;
  /** Exchange ids by what they show. */
  readonly shown: Readonly<Record<ShownExchange, string>>;
  readonly conversation: string;
  /** The session of Mira's conversation, as she sent it, and its day. */
  readonly tuesday: { readonly date: string; readonly session: string; readonly userPath: string };
  readonly yesterday: { readonly date: string; readonly changed: number };
}

export type ShownExchange =
  | 'failover'
  | 'budget'
  | 'rateLimit'
  | 'access'
  | 'blocked'
  | 'anonymised'
  | 'changedYesterday'
  | 'cacheHit'
  | 'stream'
  | 'brokenStream'
  | 'tools'
  | 'picture'
  | 'tuesday';

export const providerNames = ['openai', 'anthropic', 'groq', 'llamacpp'] as const;

/** The simulated providers of the history, and the variables of a gateway in front of them. */
export async function seededProviders(): Promise<{
  readonly providers: Readonly<Record<(typeof providerNames)[number], SimulatedProvider>>;
  readonly env: Record<string, string>;
  close(): Promise<void>;
}> {
  const providers = {
    openai: createSimulatedProvider({
      models: ['gpt-5-mini', 'gpt-5.5', 'text-embedding-3-small'],
      words: 24,
      remember: 1,
    }),
    anthropic: createSimulatedProvider({ models: ['claude-sonnet-5', 'claude-haiku-4-5'], words: 24, remember: 1 }),
    groq: createSimulatedProvider({ models: ['llama-3.3-70b-versatile'], words: 16, remember: 1 }),
    llamacpp: createSimulatedProvider({ models: ['qwen3-32b'], words: 20, remember: 1, responses: 'absent' }),
  };
  const env: Record<string, string> = {
    RESPONSE_CACHE_ENABLED: 'true',
    GUARDRAILS_ENABLED: 'true',
    TAGGING_HEADER_1: 'X-Team',
    BUDGETS_MAX_WAIT: '0',
  };
  for (const name of providerNames) {
    env[`${name.toUpperCase()}_BASE_URL`] = await providers[name].listen();
    env[`${name.toUpperCase()}_API_KEY`] = 'key-of-the-gateway';
  }
  return {
    providers,
    env,
    close: async () => void (await Promise.all(providerNames.map((name) => providers[name].close()))),
  };
}

interface MovedGateway {
  readonly url: string;
  advanceTo(at: number): Promise<void>;
  stop(): Promise<void>;
}

async function startMoved(dataDir: string, start: number, env: Record<string, string>): Promise<MovedGateway> {
  const clock = join(import.meta.dirname, 'moving-clock.ts');
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', ...gatewayFlags, `--import=${clock}`, main, 'serve'],
    {
      cwd: dataDir,
      env: {
        ...gatewayEnvironment,
        PATH: process.env.PATH,
        NODE_COMPILE_CACHE: compileCache,
        ...env,
        ...{ DATA_DIR: dataDir, GATEWAY_MASTER_KEY: MASTER_KEY, PORT: '0', ANALYTICS_ENABLED: 'false' },
        ...{ LOG_DURABILITY: 'relaxed', RETRY_INITIAL_BACKOFF: '1ms', LOG_LEVEL: 'fatal' },
        ...{ CLOCK_START: String(start), CLOCK_SPEED: String(CLOCK_SPEED) },
      },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    },
  );
  const ended = once(child, 'exit');
  const url = await new Promise<string>((resolve, reject) => {
    let printed = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      const address = /listens on (http:\/\/\S+?)\.?\s/.exec(printed)?.[1];
      if (address !== undefined) resolve(address);
    });
    child.once('exit', () => reject(new Error(`the gateway of the history ended: ${printed}`)));
  });
  return {
    url,
    async advanceTo(at) {
      const answered = once(child, 'message');
      child.send({ advanceTo: at });
      await answered;
    },
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

interface History extends Client {
  readonly keys: Readonly<Record<KeyName, SeededKey>>;
  readonly sent: number;
}

async function administer(url: string, changes: typeof preparations): Promise<void> {
  for (const [method, path, body] of changes) {
    const answer = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${MASTER_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    await answer.arrayBuffer();
  }
}

async function createKeys(url: string): Promise<History['keys']> {
  const keys: Partial<Record<KeyName, SeededKey>> = {};
  for (const [name, plan] of Object.entries(keyPlans) as [KeyName, (typeof keyPlans)[KeyName]][]) {
    const answer = await fetch(`${url}/admin/auth-keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${MASTER_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify(plan),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`key ${plan.name}: ${answer.status} ${text}`);
    const { id, value } = JSON.parse(text);
    keys[name] = { id, value, name: plan.name, path: plan.user_path };
  }
  return keys as History['keys'];
}

function clientOf(url: string, keys: History['keys']): History {
  let sent = 0;
  return {
    keys,
    get sent() {
      return sent;
    },
    async send(key, path, body, headers = {}): Promise<Sent> {
      if (path !== '/v1/conversations') sent += 1;
      const answer = await fetch(url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${keys[key].value}`, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      });
      // A broken stream ends in an error here, which belongs to the history.
      const text = await answer.text().catch((error: unknown) => String(error));
      return { status: answer.status, exchange: answer.headers.get('x-exchange-id') ?? '', text };
    },
  };
}

/** The share of an hour among those of its day, by working hours. */
function weightOf(at: number): number {
  const date = new Date(at);
  const hourOfDay = date.getUTCHours();
  const weekend = date.getUTCDay() % 6 === 0 ? 0.3 : 1;
  return (
    weekend * (0.15 + Math.exp(-(((hourOfDay - 10.5) / 3) ** 2)) + 0.8 * Math.exp(-(((hourOfDay - 15) / 2.5) ** 2)))
  );
}

/**
 * @param exchanges how many it has at least
 * @returns what tests need to know of it
 */
export async function buildHistory(dataDir: string, exchanges: number, now = Date.now()): Promise<HistoryFacts> {
  const today = Math.floor(now / day) * day;
  // A Monday: two whole weeks are over.
  const start = today - (((new Date(today).getUTCDay() + 6) % 7) + 14) * day;
  const { providers, env, close } = await seededProviders();
  const gateway = await startMoved(dataDir, start - hour, env);
  try {
    await administer(gateway.url, preparations);
    const history = clientOf(gateway.url, await createKeys(gateway.url));
    const shown: Partial<Record<ShownExchange, string>> = {};
    const special = specialMoments({ history, providers, shown, today, url: gateway.url });
    const random = seededRandom(19);
    const hours: number[] = [];
    for (let at = start; at < now - 2 * 60_000; at += hour) hours.push(at);
    const total = hours.reduce((sum, at) => sum + weightOf(at), 0);
    let due = 0;
    let conversationId: string | undefined;
    for (const at of hours) {
      const end = Math.min(at + hour, now - 60_000);
      due += (exchanges * weightOf(at)) / total;
      for (const moment of special.filter(({ at: time }) => time >= at && time < at + hour)) {
        await gateway.advanceTo(Math.min(moment.at, end));
        await moment.happen();
      }
      conversationId ??= await conversationTurns(history, random);
      const groups = Math.max(0, Math.ceil((due - history.sent) / (GROUP * 1.35)));
      // A kind sends one or several requests, so the number of groups is an estimate.
      for (let group = 0; history.sent < due; group++) {
        await gateway.advanceTo(Math.min(end, at + ((group + random.next()) * (end - at)) / groups));
        await sendGroup(history, providers, random);
      }
    }
    return {
      from: new Date(start).toISOString(),
      until: new Date(now).toISOString(),
      exchanges: history.sent,
      keys: history.keys,
      shown: shown as HistoryFacts['shown'],
      conversation: conversationId ?? '',
      tuesday: { date: isoDay(lastTuesday(today)), session: MIRAS_SESSION, userPath: keyPlans.mira.user_path },
      yesterday: { date: isoDay(today - day), changed: CHANGED_YESTERDAY },
    };
  } finally {
    await gateway.stop();
    await close();
  }
}

async function sendGroup(history: History, providers: Providers, random: Random): Promise<void> {
  for (let failures = 0; failures < 2; failures++) if (random.chance(0.25)) failNext(providers, random);
  await Promise.all(Array.from({ length: GROUP }, () => kindFor(random).send(history, random)));
}

const MIRAS_SESSION = 'ticket-20418';
/** Requests of one key that the guardrail changes, besides those of the usual traffic. */
const CHANGED_YESTERDAY = 3;

const isoDay = (at: number) => new Date(at).toISOString().slice(0, 10);
/** The last Tuesday before today; on a Tuesday the Wednesday after it: it is one of the last seven days, with today. */
const lastTuesday = (today: number) => today - Math.min(6, ((new Date(today).getUTCDay() + 4) % 7) + 1) * day;

function kindFor(random: Random) {
  let rest = random.next() * requestKinds.reduce((sum, { weight }) => sum + weight, 0);
  for (const kind of requestKinds) {
    rest -= kind.weight;
    if (rest < 0) return kind;
  }
  return requestKinds[0] as (typeof requestKinds)[number];
}

type Providers = Awaited<ReturnType<typeof seededProviders>>['providers'];

/** The next request to some provider fails. */
function failNext(providers: Providers, random: Random): void {
  const provider = providers[random.pick(providerNames)];
  provider.control.next(
    random.pick([
      { status: 500, message: 'The server had an error while processing your request.' },
      { status: 503, message: 'The engine is currently overloaded.' },
      { status: 429, message: 'Rate limit reached for requests.', retryAfter: 2 },
      { status: 400, message: "This model's maximum context length is 4096 tokens." },
      { cutAfterChunks: 3 },
      { garbage: true },
    ]),
  );
}

interface Moment {
  readonly at: number;
  happen(): Promise<void>;
}

interface Happenings {
  readonly history: History;
  readonly providers: Providers;
  readonly shown: Partial<Record<ShownExchange, string>>;
  readonly today: number;
  readonly url: string;
}

const chat = '/v1/chat/completions';

/** What happens once, at a known time, so that tests can look for it. */
function specialMoments({ history, providers, shown, today, url }: Happenings): Moment[] {
  const user = (content: unknown) => [{ role: 'user', content }];
  const yesterday = today - day;
  return [
    { at: lastTuesday(today) - 5 * day + 15 * hour, happen: () => shortConversation(history) },
    { at: lastTuesday(today) + 9.4 * hour, happen: () => conversationOfMira(history, providers, shown) },
    {
      at: yesterday - 2 * day + 14.2 * hour,
      async happen() {
        providers.anthropic.control.always({ status: 529, message: 'Overloaded', type: 'overloaded_error' });
        for (let n = 0; n < 12; n++) {
          const sent = await history.send('website', chat, { model: 'assistant', messages: user(questions[n]) });
          shown.failover ??= sent.exchange;
        }
        providers.anthropic.control.clear();
      },
    },
    {
      at: yesterday + 7.5 * hour,
      async happen() {
        await administer(url, houseStyle);
        for (let n = 0; n < CHANGED_YESTERDAY; n++) {
          const words = `Please recommend a cheap chair to a client, offer ${n}.`;
          const sent = await history.send('website', chat, { model: 'openai/gpt-5-mini', messages: user(words) });
          shown.changedYesterday = sent.exchange;
        }
      },
    },
    {
      at: yesterday + 10.25 * hour,
      async happen() {
        const burst = Array.from({ length: 45 }, (_, n) =>
          history.send('mobile', chat, {
            model: 'groq/llama-3.3-70b-versatile',
            messages: user(`${questions[2]} ${n}`),
          }),
        );
        shown.rateLimit = (await Promise.all(burst)).find(({ status }) => status === 429)?.exchange;
      },
    },
    {
      at: yesterday + 11.1 * hour,
      async happen() {
        const expensive = { model: 'openai/gpt-5.5', max_tokens: 400 };
        for (let n = 1; n <= 30 && shown.budget === undefined; n++) {
          const messages = user(`Write 300 words about invoice ${n}.`);
          const sent = await history.send('finance', chat, { ...expensive, messages });
          if (sent.status === 429) shown.budget = sent.exchange;
        }
        const denied = { model: 'openai/gpt-5.5', messages: user(questions[5]) };
        shown.access = (await history.send('platform', chat, denied)).exchange;
        const secret = { model: 'openai/gpt-5-mini', messages: user('Summarise the plan of Project Falcon.') };
        shown.blocked = (await history.send('platform', chat, secret)).exchange;
        const call = { model: 'openai/gpt-5-mini', messages: user(`${personal[0]} ${personal[1]}`) };
        shown.anonymised = (await history.send('support', chat, call)).exchange;
        const equal = { model: 'openai/gpt-5-mini', messages: user('Is the shop open on Sunday?') };
        await history.send('website', chat, equal);
        shown.cacheHit = (await history.send('website', chat, equal)).exchange;
        shown.tools = await toolCall(history, seededRandom(1));
        shown.picture = await pictureQuestion(history, seededRandom(1));
        const stream = { model: 'openai/gpt-5-mini', stream: true };
        const essay = user('Explain event sourcing. Write 80 words.');
        shown.stream = (await history.send('research', chat, { ...stream, messages: essay })).exchange;
        providers.openai.control.next({ cutAfterChunks: 4 });
        const other = user('Explain projections. Write 80 words.');
        shown.brokenStream = (await history.send('research', chat, { ...stream, messages: other })).exchange;
      },
    },
  ];
}

/** Of the same user, on another day. */
async function shortConversation(history: History): Promise<void> {
  const messages = [{ role: 'user', content: 'How long is the guarantee of the desk lamp?' }];
  await history.send('mira', chat, { model: 'openai/gpt-5-mini', messages }, { 'x-session-id': 'ticket-20377' });
}

async function conversationOfMira(
  history: History,
  providers: Providers,
  shown: Partial<Record<ShownExchange, string>>,
): Promise<void> {
  const messages: object[] = [{ role: 'system', content: 'You answer for the support desk of a furniture shop.' }];
  for (const [said, answered] of conversation) {
    messages.push({ role: 'user', content: said });
    providers.openai.control.next({ text: answered });
    const body = { model: 'openai/gpt-5-mini', messages: [...messages] };
    const sent = await history.send('mira', chat, body, { 'x-session-id': MIRAS_SESSION });
    shown.tuesday = sent.exchange;
    messages.push({ role: 'assistant', content: answered });
  }
}
