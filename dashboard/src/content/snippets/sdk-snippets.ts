/** A recorded request as a program that uses the SDK of OpenAI or Anthropic. */
import type { Dialect } from '../conversation/turn.ts';
import {
  childrenOf,
  type JsonNode,
  kindOf,
  memberOf,
  nameOf,
  rootOf,
  scanJson,
  sourceOf,
} from '../json/json-document.ts';
import { repeatedNames } from '../json/tree-rows.ts';
import type { Sliced } from '../sliced.ts';
import { depthOf, literalOf, MAX_LITERAL_DEPTH, python, typeScript } from './literals.ts';
import { type RecordedRequest, repeatedHeaders, type Snippet } from './recorded-request.ts';

const methods: Readonly<Record<Dialect, string>> = {
  chat: 'chat.completions.create',
  responses: 'responses.create',
  completions: 'completions.create',
  embeddings: 'embeddings.create',
  messages: 'messages.create',
};

/** Parameters of the Python methods; all other members of the body are passed in `extra_body`. */
const shared = ['model', 'stream', 'temperature', 'top_p', 'tools', 'tool_choice', 'metadata'];
const parameters: Readonly<Record<Dialect, readonly string[]>> = {
  chat: [
    ...shared,
    'messages',
    'max_tokens',
    'max_completion_tokens',
    'n',
    'stop',
    'response_format',
    'stream_options',
    'seed',
    'user',
    'reasoning_effort',
    'parallel_tool_calls',
  ],
  responses: [
    ...shared,
    'input',
    'instructions',
    'max_output_tokens',
    'previous_response_id',
    'reasoning',
    'text',
    'store',
    'include',
    'user',
    'parallel_tool_calls',
    'background',
    'truncation',
  ],
  messages: [...shared, 'messages', 'system', 'max_tokens', 'stop_sequences', 'top_k', 'thinking'],
  completions: [
    'model',
    'stream',
    'temperature',
    'top_p',
    'prompt',
    'max_tokens',
    'n',
    'stop',
    'seed',
    'user',
    'suffix',
    'echo',
  ],
  embeddings: ['model', 'input', 'dimensions', 'encoding_format', 'user'],
};

interface ReadBody {
  readonly root: JsonNode;
  readonly streams: boolean;
  readonly headers: readonly [string, string][];
  readonly notes: string[];
}

export function* typeScriptSnippet(dialect: Dialect, request: RecordedRequest): Sliced<Snippet> {
  const read = yield* readBody(dialect, request);
  if ('unavailable' in read) return read;
  const { root, streams, headers, notes } = read;
  if (yield* hasRoundedNumber(root))
    notes.push('JavaScript rounds some of the numbers in this body. The curl command sends them unchanged.');
  const isAnthropic = dialect === 'messages';
  const literal = yield* literalOf(root, typeScript);
  const options = [
    `  baseURL: ${typeScript.string(baseUrl(dialect, request))},`,
    '  apiKey: process.env.API_KEY,',
    ...(headers.length === 0
      ? []
      : [
          `  defaultHeaders: { ${headers.map(([name, value]) => `${typeScript.name(name)}: ${typeScript.string(value)}`).join(', ')} },`,
        ]),
  ];
  const result = streams ? ['for await (const event of answer) console.log(event);'] : ['console.log(answer);'];
  const code = [
    isAnthropic ? "import Anthropic from '@anthropic-ai/sdk';" : "import OpenAI from 'openai';",
    '',
    `const client = new ${isAnthropic ? 'Anthropic' : 'OpenAI'}({`,
    ...options,
    '});',
    '',
    `const answer = await client.${methods[dialect]}(${literal});`,
    ...result,
    '',
  ];
  return { code: code.join('\n'), notes };
}

export function* pythonSnippet(dialect: Dialect, request: RecordedRequest): Sliced<Snippet> {
  const read = yield* readBody(dialect, request);
  if ('unavailable' in read) return read;
  const { root, streams, headers, notes } = read;
  const isAnthropic = dialect === 'messages';
  /** Of members with the same name, the last one. */
  const members = new Map<string, JsonNode>();
  for (const child of childrenOf(root)) {
    members.set(nameOf(child) ?? '', child);
    if (members.size % 1_000 === 0) yield;
  }
  const named: string[] = [];
  const extra: string[] = [];
  for (const [name, child] of members) {
    if (parameters[dialect].includes(name)) named.push(`    ${name}=${yield* literalOf(child, python, '    ')},`);
    else extra.push(`        ${python.name(name)}: ${yield* literalOf(child, python, '        ')},`);
    yield;
  }
  const options = [
    `    base_url=${python.string(baseUrl(dialect, request))},`,
    '    api_key=os.environ["API_KEY"],',
    ...(headers.length === 0
      ? []
      : [
          `    default_headers={${headers.map(([name, value]) => `${python.name(name)}: ${python.string(value)}`).join(', ')}},`,
        ]),
  ];
  const code = [
    'import os',
    '',
    isAnthropic ? 'from anthropic import Anthropic' : 'from openai import OpenAI',
    '',
    `client = ${isAnthropic ? 'Anthropic' : 'OpenAI'}(`,
    ...options,
    ')',
    `answer = client.${methods[dialect]}(`,
    ...named,
    ...(extra.length === 0 ? [] : ['    extra_body={', ...extra, '    },']),
    ')',
    ...(streams ? ['for event in answer:', '    print(event)'] : ['print(answer)']),
    '',
  ];
  return { code: code.join('\n'), notes };
}

function* readBody(dialect: Dialect, request: RecordedRequest): Sliced<ReadBody | { readonly unavailable: string }> {
  const document = yield* scanJson(new TextDecoder().decode(request.body));
  const root = rootOf(document);
  if (root === undefined || document.problem !== undefined || kindOf(root) !== 'object') {
    return { unavailable: 'The recorded body is not a JSON object. Use the curl command.' };
  }
  if ((yield* depthOf(root)) > MAX_LITERAL_DEPTH)
    return { unavailable: 'The recorded body is nested too deeply for a program. Use the curl command.' };
  const notes = ['Set API_KEY to a key of this gateway first.'];
  if ((yield* repeatedNames(document)).size > 0)
    notes.push('An object in this body has several members with the same name; a program sends only the last one.');
  if (dialect === 'embeddings' && memberOf(root, 'encoding_format') === undefined) {
    notes.push('The SDK asks for vectors in base64 unless encoding_format is given.');
  }
  const stream = memberOf(root, 'stream');
  const headers = repeatedHeaders(request).filter(
    ([name]) => !['content-type', 'accept', 'anthropic-version'].includes(name),
  );
  return { root, streams: stream !== undefined && kindOf(stream) === 'true', headers, notes };
}

/** OpenAI's SDK wants the URL with `/v1`, Anthropic's without. */
function baseUrl(dialect: Dialect, { gateway }: RecordedRequest): string {
  return dialect === 'messages' ? gateway : `${gateway}/v1`;
}

function* hasRoundedNumber({ document }: JsonNode): Sliced<boolean> {
  for (let index = 0; index < document.count; index += 1) {
    if (index % 1_000 === 0) yield;
    const node = { document, index };
    if (kindOf(node) !== 'number') continue;
    const source = sourceOf(node);
    const value = Number(source);
    if (/^-?\d+$/.test(source) ? !Number.isSafeInteger(value) : !Number.isFinite(value)) return true;
  }
  return false;
}
