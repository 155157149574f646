/** The kinds of requests of the seeded history. Each function sends one or several exchanges. */
import type { KeyName } from './callers.ts';
import type { Random } from './random.ts';
import { conversation, frequentQuestions, personal, picture, questions, system, tool } from './texts.ts';

export interface Sent {
  readonly status: number;
  /** `x-exchange-id` */
  readonly exchange: string;
  readonly text: string;
}

export interface Client {
  send(key: KeyName, path: string, body: object, headers?: Record<string, string>): Promise<Sent>;
}

export interface RequestKind {
  /** How many of a hundred groups are of this kind. */
  readonly weight: number;
  send(client: Client, random: Random): Promise<unknown>;
}

const chat = '/v1/chat/completions';
const openModels = [
  'openai/gpt-5-mini',
  'openai/gpt-5-mini',
  'groq/llama-3.3-70b-versatile',
  'llamacpp/qwen3-32b',
] as const;
const everyday = ['website', 'website', 'mobile', 'support', 'research'] as const;
const agents = [
  'openai-python/2.8.0',
  'OpenAI/JS 7.55.0',
  'curl/8.14.1',
  'langchain/1.2',
  'Mozilla/5.0 (ShopAssistant)',
] as const;

const user = (content: unknown) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });
const from = (random: Random) => ({ 'user-agent': random.pick(agents) });
const hex = (random: Random) =>
  random
    .below(2 ** 32)
    .toString(16)
    .padStart(8, '0');

function question(random: Random): string {
  return `${random.pick(questions)} (${1 + random.below(9000)})`;
}

export const requestKinds: readonly RequestKind[] = [
  {
    weight: 30,
    send: (client, random) =>
      client.send(
        random.pick(everyday),
        chat,
        { model: random.pick(openModels), messages: [{ role: 'system', content: system }, user(question(random))] },
        from(random),
      ),
  },
  {
    weight: 18,
    send: (client, random) =>
      client.send(
        random.pick(everyday),
        chat,
        {
          model: random.pick(openModels),
          stream: true,
          stream_options: { include_usage: true },
          messages: [user(question(random))],
        },
        from(random),
      ),
  },
  // The research team's long answers of an expensive model.
  {
    weight: 12,
    send: (client, random) =>
      client.send('research', '/v1/responses', {
        model: 'openai/gpt-5.5',
        instructions: 'Cite every source.',
        input: `${question(random)} Write 400 words.`,
        metadata: { notebook: `nb-${random.below(40)}` },
      }),
  },
  // The virtual model with failover.
  {
    weight: 8,
    send: (client, random) =>
      client.send('website', chat, { model: 'assistant', messages: [user(question(random))] }, from(random)),
  },
  {
    weight: 8,
    send: (client, random) =>
      client.send('support', '/v1/messages', {
        model: 'anthropic/claude-haiku-4-5',
        max_tokens: 200,
        stream: random.chance(0.4),
        messages: [user(random.chance(0.3) ? random.pick(personal) : question(random))],
      }),
  },
  {
    weight: 6,
    send: (client, random) =>
      client.send('platform', '/v1/embeddings', {
        model: 'openai/text-embedding-3-small',
        input: [question(random), question(random)],
      }),
  },
  { weight: 5, send: chatSession },
  { weight: 4, send: responseChain },
  { weight: 2, send: (client, random) => conversationTurns(client, random) },
  { weight: 3, send: toolCall },
  { weight: 1, send: pictureQuestion },
  {
    weight: 3,
    send: (client, random) =>
      client.send('website', chat, { model: 'openai/gpt-5-mini', messages: [user(random.pick(frequentQuestions))] }),
  },
  // The words that the guardrail of yesterday changes.
  {
    weight: 3,
    send: (client, random) =>
      client.send('website', chat, {
        model: 'openai/gpt-5-mini',
        messages: [user(`A client asks for a cheap desk lamp under ${20 + random.below(80)} euros.`)],
      }),
  },
  // Refused: the model is not in the list of the key, or the budget of the day is spent.
  {
    weight: 1,
    send: (client, random) =>
      client.send('platform', chat, { model: 'openai/gpt-5.5', messages: [user(question(random))] }),
  },
  {
    weight: 2,
    send: (client, random) =>
      client.send('finance', chat, { model: 'openai/gpt-5.5', max_tokens: 60, messages: [user(question(random))] }),
  },
];

async function chatSession(client: Client, random: Random): Promise<void> {
  const session = { 'x-session-id': `chat-${hex(random)}`, ...from(random) };
  const key = random.pick(everyday);
  const messages = [{ role: 'system', content: system }] as object[];
  for (const [said, answered] of conversation.slice(0, 2 + random.below(3))) {
    messages.push(user(said));
    await client.send(
      key,
      chat,
      { model: 'openai/gpt-5-mini', messages: [...messages], stream: random.chance(0.5) },
      session,
    );
    messages.push(assistant(answered));
  }
}

async function responseChain(client: Client, random: Random): Promise<void> {
  let previous: string | undefined;
  for (let turn = 0; turn < 2 + random.below(3); turn++) {
    const body = { model: 'groq/llama-3.3-70b-versatile', input: question(random), previous_response_id: previous };
    previous = idIn(await client.send('research', '/v1/responses', body));
  }
}

/** @returns the id of the conversation */
export async function conversationTurns(client: Client, random: Random): Promise<string | undefined> {
  const id = idIn(
    await client.send('support', '/v1/conversations', { metadata: { ticket: `T-${random.below(9999)}` } }),
  );
  for (const [said] of conversation.slice(0, 2)) {
    await client.send('support', '/v1/responses', { model: 'openai/gpt-5-mini', conversation: id, input: said });
  }
  return id;
}

/** @returns the exchange that called the tool */
export async function toolCall(client: Client, random: Random): Promise<string> {
  const city = random.pick(['Paris', 'Oslo', 'Lagos', 'Kyoto', 'Lima']);
  const session = { 'x-session-id': `tools-${hex(random)}` };
  const tools = [{ type: 'function', function: tool }];
  const messages: object[] = [user(`What is the weather in ${city}? Use get_weather.`)];
  const model = 'openai/gpt-5-mini';
  const called = await client.send('mobile', chat, { model, messages, tools }, session);
  const message = messageIn(called);
  if (message?.tool_calls?.[0] === undefined) return called.exchange;
  const result = { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '{"temperature":21,"sky":"clear"}' };
  await client.send('mobile', chat, { model, messages: [...messages, message, result], tools }, session);
  return called.exchange;
}

/** @returns the exchange */
export async function pictureQuestion(client: Client, random: Random): Promise<string> {
  const text = `Which colours has this flag? (${random.below(1000)})`;
  const content = [
    { type: 'text', text },
    { type: 'image_url', image_url: { url: picture } },
  ];
  return (await client.send('mobile', chat, { model: 'openai/gpt-5-mini', messages: [user(content)] })).exchange;
}

function idIn({ text }: Sent): string | undefined {
  return /"id":\s*"([^"]+)"/.exec(text)?.[1];
}

interface ChatMessage {
  readonly tool_calls?: readonly { readonly id: string }[];
}

function messageIn({ text, status }: Sent): ChatMessage | undefined {
  return status === 200 ? JSON.parse(text).choices?.[0]?.message : undefined;
}
