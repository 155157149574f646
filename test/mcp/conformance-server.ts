/**
 * The server that the scenarios of `@modelcontextprotocol/conformance` expect, over standard input and output. The gateway is
 * tested in front of it.
 */
import { createInterface } from 'node:readline';
import type { Answered as Json } from '../support/answered.ts';

const asked = new Map<string, (answer: Json) => void>();
let lastQuestion = 0;

const send = (message: object) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const notify = (method: string, params: object) => send({ method, params });

function ask(method: string, params: object): Promise<Json> {
  const id = `q${++lastQuestion}`;
  send({ id, method, params });
  return new Promise((resolve) => asked.set(id, resolve));
}

const text = (value: string) => ({ content: [{ type: 'text', text: value }] });
/** One pixel. */
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
/** A WAV file without samples. */
const wav = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';
const image = { type: 'image', data: png, mimeType: 'image/png' };

const properties = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
const schemaOf = (...names: string[]) => ({ type: 'object', properties: properties(names), required: names });

interface Tool {
  readonly inputSchema: object;
  call(args: Json, meta: Json): object | Promise<object>;
}

const elicit = async (message: string, requestedSchema: object) => {
  const { result } = await ask('elicitation/create', { message, requestedSchema });
  return text(`Elicitation completed: action=${result?.action}, content=${JSON.stringify(result?.content ?? {})}`);
};

const titled = (...values: readonly string[]) => values.map((value, n) => ({ const: value, title: `Option ${n + 1}` }));

const tools: Readonly<Record<string, Tool>> = {
  test_simple_text: {
    inputSchema: schemaOf(),
    call: () => text('This is a simple text response for testing.'),
  },
  test_image_content: { inputSchema: schemaOf(), call: () => ({ content: [image] }) },
  test_audio_content: {
    inputSchema: schemaOf(),
    call: () => ({ content: [{ type: 'audio', data: wav, mimeType: 'audio/wav' }] }),
  },
  test_embedded_resource: {
    inputSchema: schemaOf(),
    call: () => ({
      content: [
        {
          type: 'resource',
          resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'An embedded resource.' },
        },
      ],
    }),
  },
  test_multiple_content_types: {
    inputSchema: schemaOf(),
    call: () => ({
      content: [
        { type: 'text', text: 'Multiple content types test:' },
        image,
        { type: 'resource', resource: { uri: 'test://mixed', mimeType: 'application/json', text: '{"test":"data"}' } },
      ],
    }),
  },
  test_tool_with_logging: {
    inputSchema: schemaOf(),
    call() {
      for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
        notify('notifications/message', { level: 'info', data });
      }
      return text('Tool with logging executed');
    },
  },
  test_tool_with_progress: {
    inputSchema: schemaOf(),
    call(_args, { progressToken = 0 }) {
      for (const progress of [0, 50, 100]) notify('notifications/progress', { progressToken, progress, total: 100 });
      return text(String(progressToken));
    },
  },
  test_error_handling: {
    inputSchema: schemaOf(),
    call: () => ({ ...text('This tool intentionally returns an error for testing'), isError: true }),
  },
  test_sampling: {
    inputSchema: schemaOf('prompt'),
    async call({ prompt }) {
      const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
      const { result } = await ask('sampling/createMessage', { messages, maxTokens: 100 });
      return text(`LLM response: ${result?.content?.text}`);
    },
  },
  test_elicitation: {
    inputSchema: schemaOf('message'),
    call: ({ message }) =>
      elicit(message, {
        type: 'object',
        properties: {
          username: { type: 'string', description: 'Name' },
          email: { type: 'string', description: 'E-mail' },
        },
        required: ['username', 'email'],
      }),
  },
  test_elicitation_sep1034_defaults: {
    inputSchema: schemaOf(),
    call: () =>
      elicit('Please review the defaults', {
        type: 'object',
        properties: {
          name: { type: 'string', default: 'John Doe' },
          age: { type: 'integer', default: 30 },
          score: { type: 'number', default: 95.5 },
          status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
          verified: { type: 'boolean', default: true },
        },
        required: [],
      }),
  },
  test_elicitation_sep1330_enums: {
    inputSchema: schemaOf(),
    call: () =>
      elicit('Please select options', {
        type: 'object',
        properties: {
          untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
          titledSingle: { type: 'string', oneOf: titled('value1', 'value2', 'value3') },
          legacyEnum: {
            type: 'string',
            enum: ['opt1', 'opt2', 'opt3'],
            enumNames: ['Option One', 'Option Two', 'Option Three'],
          },
          untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
          titledMulti: { type: 'array', items: { anyOf: titled('value1', 'value2', 'value3') } },
        },
        required: [],
      }),
  },
  test_reconnection: { inputSchema: schemaOf(), call: () => text('Reconnection test completed successfully') },
  json_schema_2020_12_tool: {
    inputSchema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      $defs: { address: { type: 'object', properties: properties(['street', 'city']) } },
      properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
      additionalProperties: false,
    },
    call: (args) => text(`JSON Schema 2020-12 tool called with: ${JSON.stringify(args)}`),
  },
};

const resources: readonly Json[] = [
  {
    uri: 'test://static-text',
    name: 'Static text',
    mimeType: 'text/plain',
    text: 'This is the content of the static text resource.',
  },
  { uri: 'test://static-binary', name: 'Static binary', mimeType: 'image/png', blob: png },
  { uri: 'test://watched-resource', name: 'Watched', mimeType: 'text/plain', text: 'Watched resource content' },
];

const user = (content: object) => ({ role: 'user', content });
const argument = (name: string) => ({ name, description: name, required: true });

const prompts: Readonly<Record<string, { readonly arguments?: readonly object[]; messages(args: Json): object[] }>> = {
  test_simple_prompt: { messages: () => [user({ type: 'text', text: 'This is a simple prompt for testing.' })] },
  test_prompt_with_arguments: {
    arguments: [argument('arg1'), argument('arg2')],
    messages: ({ arg1, arg2 }) => [
      user({ type: 'text', text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` }),
    ],
  },
  test_prompt_with_embedded_resource: {
    arguments: [argument('resourceUri')],
    messages: ({ resourceUri }) => [
      user({
        type: 'resource',
        resource: { uri: resourceUri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' },
      }),
      user({ type: 'text', text: 'Please process the embedded resource above.' }),
    ],
  },
  test_prompt_with_image: {
    messages: () => [user(image), user({ type: 'text', text: 'Please analyze the image above.' })],
  },
};

function read(uri: string): object {
  const known = resources.find((one) => one['uri'] === uri);
  if (known !== undefined) {
    const { name: _name, ...content } = known;
    return { contents: [content] };
  }
  const id = /^test:\/\/template\/(.+)\/data$/.exec(uri)?.[1];
  if (id === undefined) throw Object.assign(new Error('Resource not found'), { code: -32002, data: { uri } });
  const data = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
  return { contents: [{ uri, mimeType: 'application/json', text: data }] };
}

const methods: Readonly<Record<string, (params: Json) => object | Promise<object>>> = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: {
      tools: { listChanged: true },
      prompts: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      logging: {},
      completions: {},
    },
    serverInfo: { name: 'conformance', version: '1.0.0' },
  }),
  ping: () => ({}),
  'logging/setLevel': () => ({}),
  'completion/complete': () => ({ completion: { values: ['paris', 'park'], total: 2, hasMore: false } }),
  'tools/list': () => ({
    tools: Object.entries(tools).map(([name, { inputSchema }]) => ({
      name,
      description: `The tool ${name}`,
      inputSchema,
    })),
  }),
  'tools/call'({ name, arguments: args = {}, _meta = {} }) {
    const tool = tools[name];
    if (tool === undefined) throw Object.assign(new Error(`Unknown tool: ${name}`), { code: -32602 });
    return tool.call(args, _meta);
  },
  'prompts/list': () => ({
    prompts: Object.entries(prompts).map(([name, { arguments: args = [] }]) => ({
      name,
      description: `The prompt ${name}`,
      arguments: args,
    })),
  }),
  'prompts/get': ({ name, arguments: args = {} }) => ({ messages: prompts[name]?.messages(args) ?? [] }),
  'resources/list': () => ({
    resources: resources.map(({ text: _text, blob: _blob, ...listed }) => ({ ...listed, description: 'A resource' })),
  }),
  'resources/templates/list': () => ({
    resourceTemplates: [
      {
        uriTemplate: 'test://template/{id}/data',
        name: 'Template',
        description: 'A template',
        mimeType: 'application/json',
      },
    ],
  }),
  'resources/read': ({ uri }) => read(uri),
  'resources/subscribe': () => ({}),
  'resources/unsubscribe': () => ({}),
};

async function answer({ id, method, params = {} }: Json): Promise<void> {
  try {
    const known = methods[method];
    if (known === undefined) throw Object.assign(new Error(`Method not found: ${method}`), { code: -32601 });
    send({ id, result: await known(params) });
  } catch (error) {
    const { code = -32603, message, data } = error as { code?: number; message: string; data?: unknown };
    send({ id, error: { code, message, ...(data !== undefined && { data }) } });
  }
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const message: Json = JSON.parse(line);
  if (message['method'] !== undefined) {
    if (message['id'] !== undefined) void answer(message);
    return;
  }
  const id = String(message['id']);
  asked.get(id)?.(message);
  asked.delete(id);
});
