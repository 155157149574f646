/**
 * A stored object that a caller may not see does not exist for that caller: it cannot be read, changed, or used.
 * The table holds every route that names a stored object; one that is missing from it fails the test.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { createChance } from '../crash/random.ts';
import { line } from '../support/batches.ts';
import { both, NATIVE_KEY, native, translated, withBothKinds } from '../support/both-kinds.ts';
import { newKey } from '../support/managed-keys.ts';
import { countOf, pairsOf, seed, someOf } from '../support/seed.ts';
import { dataOf, type ErrorBody, errorOf, json, user } from '../support/with-gateway.ts';

/** Ends only by cancellation, however slow the machine is. */
const kinds = withBothKinds({}, { backgroundMs: 3_600_000 });
const { gateway } = kinds;

/** A key by its name here, or the master key without a name; and the user path in the header. */
interface Caller {
  readonly key?: keyof typeof bodies;
  readonly header?: string;
}

const bodies = {
  'of ann': { user_path: '/team/ann' },
  'of bob': { user_path: '/team/bob' },
  'of the team': { user_path: '/team' },
  'of annie': { user_path: '/team/annie' },
  unbound: {},
  'unbound too': {},
  'of the root': { user_path: '/' },
  'admin of ann': { user_path: '/team/ann', dashboard_access: true },
  'admin of bob': { user_path: '/team/bob', dashboard_access: true },
  'global admin': { dashboard_access: true },
  'admin of the root': { user_path: '/', dashboard_access: true },
};
const values = new Map<string, string>();

beforeAll(async () => {
  for (const [name, body] of Object.entries(bodies)) values.set(name, (await newKey(gateway, body)).value);
});

const as = ({ key, header }: Caller): { headers: Record<string, string> } => ({
  headers: {
    ...(key === undefined ? {} : { authorization: `Bearer ${values.get(key)}` }),
    ...(header === undefined ? {} : { 'x-gateway-user-path': header }),
  },
});
const nameOf = ({ key, header }: Caller) => `${key ?? 'master'}${header === undefined ? '' : ` at ${header}`}`;

interface Ownership {
  readonly owner: Caller;
  readonly strangers: readonly Caller[];
  readonly friends: readonly Caller[];
}

const master: Caller = {};
/** Callers that see everything. */
const all: readonly Caller[] = [master, { header: '/' }, { key: 'global admin' }, { key: 'admin of the root' }];
/** A key without a subtree and without dashboard access sees what it created, and no header changes that. */
const plain: readonly Caller[] = (['unbound too', 'of the root'] as const).flatMap((key) => [
  { key },
  { key, header: '/' },
  { key, header: '/team/ann' },
]);
/** At no path above that of ann; one of them has a path with the same prefix. */
const beside: readonly Caller[] = [
  { header: '/team/bob' },
  { header: '/team/an' },
  { header: '/team/ann/below' },
  { header: '/team/annie' },
  { key: 'global admin', header: '/team/bob' },
  { key: 'of bob' },
  { key: 'of bob', header: '/team/ann' },
  { key: 'of annie' },
  { key: 'admin of bob' },
];
const ofThePath: Omit<Ownership, 'owner'> = {
  strangers: [...beside, ...plain],
  friends: [
    ...all,
    { header: '/team/ann' },
    { header: '/team' },
    { key: 'of ann' },
    { key: 'of ann', header: '/team/bob' },
    { key: 'of the team' },
    { key: 'admin of ann' },
  ],
};

const ownerships: Ownership[] = [
  { owner: { header: '/team/ann' }, ...ofThePath },
  { owner: { key: 'of ann' }, ...ofThePath },
  // The header attributes the request, so what the key created there is also visible at that path.
  {
    owner: { key: 'unbound', header: '/team/ann' },
    ...ofThePath,
    friends: [
      ...ofThePath.friends,
      ...(['/team/ann', '/team/bob'] as const).map((header) => ({ key: 'unbound' as const, header })),
    ],
  },
  {
    owner: { key: 'unbound' },
    strangers: [...beside, ...plain, { header: '/team/ann' }, { key: 'of ann' }, { key: 'of the team' }],
    friends: [...all, { key: 'unbound' }, { key: 'unbound', header: '/team/bob' }, { key: 'unbound', header: '/' }],
  },
  {
    owner: { key: 'of the root' },
    strangers: [...beside, ...plain.filter(({ key }) => key !== 'of the root'), { key: 'of the team' }],
    friends: [...all, { key: 'of the root' }, { key: 'of the root', header: '/team/bob' }],
  },
];
const [ofMasterAtPath] = ownerships;
if (ofMasterAtPath === undefined) throw new Error('nobody owns anything');
const { owner, strangers, friends } = ofMasterAtPath;

const chance = createChance(seed);

/** Other callers for each test; `npm run test:long` has all of them. */
function someCallers(callers: readonly Caller[]): readonly Caller[] {
  const chosen = [...callers];
  while (chosen.length > countOf(4, callers.length)) chosen.splice(chance.between(0, chosen.length - 1), 1);
  return chosen;
}

/** @param by the owner */
type Make = (by?: Caller) => Promise<string>;

const kept = new Map<Make, Map<Caller, Promise<string>>>();

/** One object of the owner for all tests that do not change it. */
function keptOf(make: Make, by: Caller): Promise<string> {
  const ofMake = kept.get(make) ?? new Map<Caller, Promise<string>>();
  kept.set(make, ofMake);
  const id = ofMake.get(by) ?? make(by);
  ofMake.set(by, id);
  return id;
}

const response =
  (model: string, body: object = {}): Make =>
  async (by = owner) =>
    (await json(await gateway.post('/v1/responses', { model, input: 'hi', ...body }, as(by)))).id;

async function conversation(by = owner): Promise<string> {
  const items = user('My name is Ada. Remember it.').map((item) => ({ type: 'message', ...item }));
  return (await json(await gateway.post('/v1/conversations', { items }, as(by)))).id;
}

async function itemIn(id: string): Promise<string> {
  return (await json(await gateway.fetch(`/v1/conversations/${id}/items`))).data[0].id;
}

async function file(by = owner): Promise<string> {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('provider', 'openai');
  form.append('file', new Blob([`${JSON.stringify(line())}\n`]), 'in.jsonl');
  const uploaded = await json(await gateway.fetch('/v1/files', { method: 'POST', body: form, ...as(by) }));
  return uploaded.id;
}

async function batch(by = owner): Promise<string> {
  const requestBody = { input_file_id: await file(by), endpoint: '/v1/chat/completions', completion_window: '24h' };
  return (await json(await gateway.post('/v1/batches', requestBody, as(by)))).id;
}

/** A batch that does not end by itself. */
async function messageBatch(by = owner): Promise<string> {
  const params = { model: native, max_tokens: 5, messages: user('hi') };
  const requestBody = { requests: [{ custom_id: 'a', params }] };
  return (await json(await gateway.post('/v1/messages/batches', requestBody, as(by)))).id;
}

interface Row {
  /** In the form of the API's description. */
  readonly route: string;
  readonly make: Make;
  readonly query?: string;
  readonly body?: object;
  /** The item that the path names, when it names one. */
  readonly item?: (id: string) => Promise<string>;
  /** The status for callers that see it; default: 200. */
  readonly status?: number;
}

const item = { type: 'message', role: 'user', content: 'more' };
const ofResponses: Row[] = both.flatMap(([, model]) => {
  const make = response(model);
  const makeInBackground = response(model, { background: true });
  return [
    { route: 'GET /v1/responses/{id}', make },
    { route: 'GET /v1/responses/{id}', make, query: '?stream=true' },
    { route: 'GET /v1/responses/{id}', make, query: '?provider=openai' },
    { route: 'GET /v1/responses/{id}', make, query: '?stream=true&provider=openai' },
    { route: 'GET /v1/responses/{id}', make: makeInBackground },
    { route: 'GET /v1/responses/{id}/input_items', make },
    { route: 'DELETE /v1/responses/{id}', make },
    { route: 'POST /v1/responses/{id}/cancel', make: makeInBackground },
  ];
});

const table: readonly Row[] = [
  ...ofResponses,
  { route: 'GET /v1/conversations/{id}', make: conversation },
  { route: 'POST /v1/conversations/{id}', make: conversation, body: { metadata: { a: 'b' } } },
  { route: 'DELETE /v1/conversations/{id}', make: conversation },
  { route: 'GET /v1/conversations/{id}/items', make: conversation },
  { route: 'POST /v1/conversations/{id}/items', make: conversation, body: { items: [item] } },
  { route: 'GET /v1/conversations/{id}/items/{item}', make: conversation, item: itemIn },
  { route: 'DELETE /v1/conversations/{id}/items/{item}', make: conversation, item: itemIn },
  { route: 'GET /v1/files/{id}', make: file },
  { route: 'GET /v1/files/{id}', make: file, query: '?provider=openai' },
  { route: 'GET /v1/files/{id}/content', make: file },
  { route: 'DELETE /v1/files/{id}', make: file },
  { route: 'GET /v1/batches/{id}', make: batch },
  { route: 'GET /v1/batches/{id}', make: batch, query: '?provider=openai' },
  { route: 'POST /v1/batches/{id}/cancel', make: batch },
  { route: 'GET /v1/batches/{id}/results', make: batch, status: 409 },
  { route: 'GET /v1/messages/batches/{id}', make: messageBatch },
  { route: 'GET /v1/messages/batches/{id}', make: messageBatch, query: '?provider=openai' },
  { route: 'GET /v1/messages/batches/{id}/results', make: messageBatch, status: 409 },
  { route: 'POST /v1/messages/batches/{id}/cancel', make: messageBatch },
  { route: 'DELETE /v1/messages/batches/{id}', make: messageBatch, status: 400 },
];

async function call(row: Row, id: string, itemId: string, caller: Caller): Promise<Response> {
  const [method = '', path = ''] = row.route.split(' ');
  const target = `${path.replace('{id}', id).replace('{item}', itemId)}${row.query ?? ''}`;
  if (row.body !== undefined) return gateway.post(target, row.body, as(caller));
  return gateway.fetch(target, { method, ...as(caller) });
}

/** The refusal without the id of the object; of Anthropic's routes in its own envelope. */
async function refusalOf(answer: Response, ...names: string[]): Promise<Pick<ErrorBody, 'type' | 'message'>> {
  const isAnthropics = new URL(answer.url).pathname.startsWith('/v1/messages');
  const error = isAnthropics ? (await json(answer)).error : await errorOf(answer, 404);
  expect(answer.status).toBe(404);
  return { ...error, message: names.reduce((message, name) => message.replaceAll(name, '…'), error.message) };
}

const refusals = new Map<string, ReturnType<typeof refusalOf>>();

/** The refusal of an object that does not exist: the same whoever owns other objects. */
function missingRefusal(what: string, ask: () => Promise<Response>, ...names: string[]): ReturnType<typeof refusalOf> {
  const known = refusals.get(what) ?? ask().then((answer) => refusalOf(answer, 'none_at_all', ...names));
  refusals.set(what, known);
  return known;
}

const missingFor = (row: Row, stranger: Caller, itemId: string) =>
  missingRefusal(
    `${row.route}${row.query ?? ''} ${nameOf(stranger)}`,
    () => call(row, 'none_at_all', itemId, stranger),
    itemId,
  );

const ownedRows = someOf(pairsOf(ownerships, table), ([of, row]) => [of, row]).map(
  ([of, row]) => [`${row.route}${row.query ?? ''}`, nameOf(of.owner), of, row] as const,
);
describe.each(ownedRows)('%s, of an object of %s', (_route, _owner, of, row) => {
  const itemOf = async (id: string) => (row.item === undefined ? 'none' : row.item(id));

  it('is a 404 for a stranger', async () => {
    const id = await keptOf(row.make, of.owner);
    const itemId = await itemOf(id);
    await Promise.all(
      someCallers(of.strangers).map(async (stranger) => {
        const missing = await missingFor(row, stranger, itemId);
        expect(await refusalOf(await call(row, id, itemId, stranger), id, itemId), nameOf(stranger)).toEqual(missing);
      }),
    );
  });

  it('works for a friend', async () => {
    const isRead = row.route.startsWith('GET ');
    await Promise.all(
      someCallers(of.friends).map(async (friend) => {
        const id = await (isRead ? keptOf(row.make, of.owner) : row.make(of.owner));
        const answer = await call(row, id, await itemOf(id), friend);
        expect(answer.status, `${nameOf(friend)}: ${await answer.text()}`).toBe(row.status ?? 200);
      }),
    );
  });
});

it('the table holds every route that names a stored object', async () => {
  const { paths } = await json(await gateway.fetch('/openapi.json'));
  const routes = Object.entries(paths as Record<string, Record<string, unknown>>)
    .filter(([path]) => path.startsWith('/v1/') && path.includes('{id}'))
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
  expect([...new Set(table.map(({ route }) => route))].sort()).toEqual(routes.sort());
});

describe('a request that builds on', () => {
  interface Reference {
    readonly what: string;
    readonly path: string;
    readonly make: Make;
    body(id: string): object;
  }

  const messageOf =
    (model: string): Make =>
    async (by = owner) => {
      const made = await json(await gateway.post('/v1/responses', { model, input: 'hi' }, as(by)));
      return made.output.at(-1).id as string;
    };
  const inputOf =
    (model: string): Make =>
    async (by) => {
      const made = await response(model)(by);
      return (await json(await gateway.fetch(`/v1/responses/${made}/input_items`))).data[0].id as string;
    };
  const conversationItem: Make = async (by) => itemIn(await conversation(by));
  const reference = (id: string) => ({ input: [{ type: 'item_reference', id }] });
  const previous = (id: string) => ({ input: 'more', previous_response_id: id });

  const references: Reference[] = both.flatMap(([kind, model]) => {
    const of = (what: string, make: Make, body: (id: string) => object): Reference => ({
      what: `${kind}: ${what}`,
      path: '/v1/responses',
      make,
      body: (id) => ({ model, ...body(id) }),
    });
    return [
      of('a translated response', response(translated), previous),
      of('a native response', response(native), previous),
      of('an item of a translated response', messageOf(translated), reference),
      of('an item of a native response', messageOf(native), reference),
      of('an input item', inputOf(translated), reference),
      of('an item of a conversation', conversationItem, reference),
      of('a conversation', conversation, (id) => ({ input: 'more', conversation: id })),
    ];
  });
  for (const path of ['/v1/responses/input_tokens', '/v1/responses/compact']) {
    const of = (body: (id: string) => object) => (id: string) => ({ model: native, ...body(id) });
    references.push({ what: 'a response', path, make: response(translated), body: of(previous) });
    references.push({ what: "a provider's own response", path, make: response(native), body: of(previous) });
    references.push({ what: 'an item', path, make: messageOf(translated), body: of(reference) });
    references.push({ what: "a provider's own item", path, make: messageOf(native), body: of(reference) });
  }
  references.push({
    what: 'a file',
    path: '/v1/batches',
    make: file,
    body: (id) => ({
      input_file_id: id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
      provider: 'openai',
    }),
  });
  const item = (one: object) => ({ input: [one, ...user('Read it.')] });
  const ofNative: [string, string, (id: string) => object][] = [
    ...['/v1/responses', '/v1/responses/input_tokens'].flatMap((path): [string, string, (id: string) => object][] => [
      [
        'a screenshot of a tool',
        path,
        (id) =>
          item({ type: 'computer_call_output', call_id: 'c', output: { type: 'computer_screenshot', file_id: id } }),
      ],
      [
        'a file in the output of a tool',
        path,
        (id) => item({ type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', file_id: id }] }),
      ],
      [
        'files of a shell',
        path,
        (id) => ({ input: 'x', tools: [{ type: 'shell', environment: { type: 'container_auto', file_ids: [id] } }] }),
      ],
      [
        'a file in a part of an unknown type',
        path,
        (id) => item({ role: 'user', content: [{ type: 'new', file_id: id }] }),
      ],
      [
        'a file in a member of an unknown name',
        path,
        (id) => ({ input: 'x', deep: [[{ er: { Own_File_IDs: [id, id] } }]] }),
      ],
    ]),
    [
      'a file as an image',
      '/v1/chat/completions',
      (id) => ({ messages: [{ role: 'user', content: [{ type: 'image_file', image_file: { file_id: id } }] }] }),
    ],
    [
      'an image to be edited',
      '/v1/images/edits',
      (id) => ({ prompt: 'a cat', images: [{ image_url: 'data:,x' }], image: { file_id: id } }),
    ],
    [
      'a list of images to be edited',
      '/v1/images/edits',
      (id) => ({ prompt: 'a cat', images: [{ image_url: 'data:,x' }], image: [{ file_id: id }] }),
    ],
  ];
  for (const [what, path, body] of ofNative) {
    references.push({ what, path, make: file, body: (id) => ({ model: native, ...body(id) }) });
  }
  const chatLine = (id: string) => ({
    custom_id: 'a',
    url: '/v1/chat/completions',
    body: {
      model: native,
      messages: [{ role: 'user', content: [{ type: 'image_file', image_file: { file_id: id } }] }],
    },
  });
  references.push({
    what: 'a file in a line',
    path: '/v1/batches',
    make: file,
    body: (id) => ({ requests: [chatLine(id)] }),
  });
  references.push({
    what: 'a file in an item',
    path: '/v1/conversations',
    make: file,
    body: (id) => ({ items: [{ role: 'user', content: [{ type: 'input_image', file_id: id }] }] }),
  });
  const requests = (content: object[]) => [{ role: 'user', content: [...content, { type: 'text', text: 'Read it.' }] }];
  references.push(
    {
      what: 'a file, to be read by a model',
      path: '/v1/chat/completions',
      make: file,
      body: (id) => ({ model: native, messages: requests([{ type: 'file', file: { file_id: id } }]) }),
    },
    ...['/v1/responses', '/v1/responses/input_tokens'].flatMap((path) => [
      {
        what: 'a file, to be read by a model',
        path,
        make: file,
        body: (id: string) => ({
          model: native,
          input: [{ role: 'user', content: [{ type: 'input_file', file_id: id }] }],
        }),
      },
      {
        what: 'a file, for a tool',
        path,
        make: file,
        body: (id: string) => ({
          model: native,
          input: 'Read it.',
          tools: [{ type: 'code_interpreter', container: { type: 'auto', file_ids: [id] } }],
        }),
      },
    ]),
  );
  references.push({
    what: 'a file, to be edited',
    path: '/v1/images/edits',
    make: file,
    body: (id) => ({ model: native, prompt: 'a cat', images: [{ file_id: id }] }),
  });
  references.push({
    what: 'a file, to be edited behind a mask',
    path: '/v1/images/edits',
    make: file,
    body: (id) => ({ model: native, prompt: 'a cat', images: [{ image_url: 'data:,x' }], mask: { file_id: id } }),
  });
  references.push({
    what: 'an item of a response, for a conversation',
    path: '/v1/conversations',
    make: messageOf(translated),
    body: (id) => ({ items: [{ type: 'item_reference', id }] }),
  });

  for (const path of ['/v1/responses', '/v1/responses/input_tokens']) {
    for (const type of ['image_generation_call', 'reasoning']) {
      references.push({
        what: `an item by its id alone, as ${type}`,
        path,
        make: messageOf(native),
        body: (id) => ({ model: native, input: [{ type, id, summary: [] }, ...user('more')] }),
      });
    }
  }

  const owned = someOf(pairsOf(ownerships, references), ([of, one]) => [of, one]).map(
    ([of, one]) => [one.path, one.what, nameOf(of.owner), of, one] as const,
  );
  it.each(owned)('%s: %s of %s', async (_path, _what, _owner, of, { path, make, body }) => {
    const id = await keptOf(make, of.owner);
    await Promise.all(
      someCallers(of.strangers).map(async (stranger) => {
        const unknown = body('none_at_all');
        const missing = await missingRefusal(`${path} ${JSON.stringify(unknown)} ${nameOf(stranger)}`, () =>
          gateway.post(path, unknown, as(stranger)),
        );
        expect(await refusalOf(await gateway.post(path, body(id), as(stranger)), id), nameOf(stranger)).toEqual(
          missing,
        );
      }),
    );
    await Promise.all(
      someCallers(of.friends).map(async (friend) => {
        const answer = await gateway.post(path, body(id), as(friend));
        expect(answer.status, `${nameOf(friend)}: ${await answer.text()}`).toBe(200);
      }),
    );
  });
});

/** Without reads: the gateway itself reads the state of batches. */
const sentToNative = () => kinds.nativeProvider.requests.filter(({ method }) => method === 'POST');

describe('objects whose owner the gateway does not know', () => {
  const named: [string, string, object][] = [
    ['/v1/responses', 'tools[0].container', { tools: [{ type: 'code_interpreter', container: 'cntr_1' }] }],
    ['/v1/responses', 'tools[0].vector_store_ids', { tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] }],
    [
      '/v1/responses',
      'tools[0].environment.container_id',
      { tools: [{ type: 'shell', environment: { type: 'container_reference', container_id: 'cntr_1' } }] },
    ],
    ['/v1/responses', 'prompt.id', { prompt: { id: 'pmpt_1', version: '2' } }],
    [
      '/v1/responses',
      'tools[0].environment.skills[0].skill_id',
      {
        tools: [
          {
            type: 'shell',
            environment: { type: 'container_auto', skills: [{ type: 'skill_reference', skill_id: 's' }] },
          },
        ],
      },
    ],
    [
      '/v1/responses',
      'input[0].container_id',
      { input: [{ type: 'code_interpreter_call', id: 'ci_1', container_id: 'cntr_1', code: '1' }, ...user('more')] },
    ],
    [
      '/v1/messages',
      'container.skills[0].skill_id',
      { max_tokens: 9, messages: user('a'), container: { skills: [{ type: 'custom', skill_id: 'skill_1' }] } },
    ],
    ['/v1/responses/compact', 'tools[0].container', { tools: [{ type: 'code_interpreter', container: 'cntr_1' }] }],
    [
      '/v1/chat/completions',
      'messages[1].audio.id',
      { messages: [...user('a'), { role: 'assistant', audio: { id: 'audio_1' } }] },
    ],
    [
      '/p/openai/v1/chat/completions',
      'messages[0].audio.id',
      { model: 'simulated-small', messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] },
    ],
    ['/p/openai/v1/messages', 'container', { model: 'simulated-small', container: 'container_1' }],
    ['/v1/messages', 'container', { max_tokens: 9, messages: user('a'), container: 'container_1' }],
    ['/v1/messages', 'container', { max_tokens: 9, messages: user('a'), container: { id: 'container_1' } }],
  ];

  it.each(named)('%s refuses %s to callers that do not see everything', async (path, param, body) => {
    const requestBody = { model: native, input: 'hi', messages: user('hi'), ...body };
    const before = sentToNative().length;
    for (const caller of [
      { key: 'of ann' },
      { key: 'unbound' },
      { key: 'admin of ann' },
      { header: '/team/ann' },
    ] as const) {
      if (path.startsWith('/p/') && !('key' in caller)) continue;
      const answer = await gateway.post(path, requestBody, as(caller));
      const { error } = await json(answer);
      // Beside chat completions, passthrough of `openai` has no stateless route for it, and refuses that first.
      expect([answer.status, error.type], nameOf(caller)).toEqual([403, 'permission_error']);
      if (path !== '/p/openai/v1/messages') expect(error.message).toContain(`'${param}'`);
    }
    expect(sentToNative()).toHaveLength(before);
  });

  it('an approval of a request for a tool that the caller does not see is a 404', async () => {
    const input = [{ type: 'mcp_approval_response', approval_request_id: 'mcpr_1', approve: true }];
    for (const caller of [{ key: 'of ann' }, { header: '/team/ann' }] as const) {
      const answer = await gateway.post('/v1/responses', { model: native, input }, as(caller));
      expect(await errorOf(answer, 404)).toMatchObject({ code: 'item_not_found' });
    }
    const request = { type: 'mcp_approval_request', id: 'mcpr_1', name: 'n', arguments: '{}', server_label: 's' };
    const own = await gateway.post(
      '/v1/responses',
      { model: native, input: [request, ...input] },
      as({ key: 'of ann' }),
    );
    expect(own.status, await own.text()).toBe(200);
  });

  it('names that a provider only passes through are no references', async () => {
    const calls = [{ id: 'c', type: 'function', function: { name: 'read', arguments: '{"file_id":"file-1"}' } }];
    const requestBody = {
      model: native,
      metadata: { file_id: 'file-1' },
      messages: [
        ...user('hi'),
        { role: 'assistant', tool_calls: calls },
        { role: 'tool', tool_call_id: 'c', content: 'file_id: file-1' },
      ],
      tools: [
        { type: 'function', function: { name: 'read', parameters: { properties: { file_id: { type: 'string' } } } } },
      ],
    };
    const answer = await gateway.post('/v1/chat/completions', requestBody, as({ key: 'of ann' }));
    expect(answer.status, await answer.text()).toBe(200);
  });

  it('are passed on for callers that see everything', async () => {
    const tools = [{ type: 'code_interpreter', container: 'cntr_1' }];
    for (const caller of all) {
      const answer = await gateway.post('/v1/responses', { model: native, input: 'hi', tools }, as(caller));
      expect(answer.status, await answer.text()).toBe(200);
    }
  });

  it('a container that is to be created is not refused', async () => {
    const tools = [{ type: 'code_interpreter', container: { type: 'auto' } }];
    const answer = await gateway.post('/v1/responses', { model: native, input: 'hi', tools }, as(owner));
    expect(answer.status, await answer.text()).toBe(200);
  });
});

describe('a conversation with an item that names a file', () => {
  const item = (id: string) => ({ type: 'message', role: 'user', content: [{ type: 'input_image', file_id: id }] });

  it('accepts no file of another path, in any route', async () => {
    const id = await file({ key: 'of bob' });
    const ann = { key: 'of ann' } as const;
    expect((await gateway.post('/v1/conversations', { items: [item(id)] }, as(ann))).status).toBe(404);
    const own = (await json(await gateway.post('/v1/conversations', {}, as(ann)))).id;
    expect((await gateway.post(`/v1/conversations/${own}/items`, { items: [item(id)] }, as(ann))).status).toBe(404);
  });

  it('sends no file to a provider that the caller of the response does not see', async () => {
    const id = await file({ key: 'unbound' });
    const made = await gateway.post(
      '/v1/conversations',
      { items: [item(id)] },
      as({ key: 'unbound', header: '/team/ann' }),
    );
    const { id: shared } = await json(made);
    const before = sentToNative().length;
    const respond = (caller: Caller) =>
      gateway.post('/v1/responses', { model: native, input: 'What is it?', conversation: shared }, as(caller));
    expect(await errorOf(await respond({ key: 'of ann' }), 404)).toMatchObject({
      message: expect.stringContaining(id),
    });
    expect(sentToNative().length).toBe(before);
    const answer = await respond({ key: 'unbound' });
    expect(answer.status, await answer.text()).toBe(200);
  });
});

describe('a form that names a stored file', () => {
  const transcription = (fields: readonly (readonly [string, string | Blob])[]) => {
    const form = new FormData();
    for (const [name, value] of fields) form.append(name, value);
    return { method: 'POST', body: form };
  };
  const sound = ['file', new Blob(['RIFF'])] as const;
  const model = ['model', native] as const;

  it('is passed on for a friend and refused for a stranger', async () => {
    const id = await file();
    const send = (caller: Caller, ...names: string[]) => {
      const named = names.map((name, at) => [at === 0 ? 'file_id' : 'image[0][File_Id]', name] as const);
      const form = transcription([model, ...named, sound]);
      return gateway.fetch('/v1/audio/transcriptions', { ...form, ...as(caller) });
    };
    for (const stranger of strangers) {
      const missing = await refusalOf(await send(stranger, 'none_at_all'), 'none_at_all');
      expect(await refusalOf(await send(stranger, id), id), nameOf(stranger)).toEqual(missing);
    }
    for (const friend of friends) expect((await send(friend, id)).status, nameOf(friend)).toBe(200);
    const own = await file({ key: 'of bob' });
    expect((await send({ key: 'of bob' }, own)).status).toBe(200);
    expect((await send({ key: 'of bob' }, own, id)).status).toBe(404);
    const stores = transcription([model, ['vector_store_ids[]', 'vs_1'], sound]);
    const refused = await gateway.fetch('/v1/audio/transcriptions', { ...stores, ...as({ key: 'of bob' }) });
    expect(await errorOf(refused, 403)).toMatchObject({ code: 'stored_reference_denied' });
  });

  it.each<(id: string) => readonly [string, string]>([
    (id) => ['image[0].file_id ', id],
    (id) => [' file_ids [0]', id],
    (id) => ['file_id[a]', id],
    (id) => ['image', JSON.stringify([{ file_id: id }])],
    (id) => ['image', ` {"\\u0066ile_id":"${id}"}`],
    (id) => ['image', `{"file_id":"a","file_id":"${id}"}`],
    (id) => ['voice[id]', id],
  ])('is refused in another form of a field (%#), also behind the file', async (field) => {
    const id = await file();
    const send = (caller: Caller, ...fields: (readonly [string, string | Blob])[]) =>
      gateway.fetch('/v1/audio/transcriptions', { ...transcription(fields), ...as(caller) });
    for (const fields of [
      [model, field(id), sound],
      [model, sound, field(id)],
    ]) {
      const answer = await send({ key: 'of bob' }, ...fields);
      expect([400, 403, 404], await answer.clone().text()).toContain(answer.status);
      expect(await answer.text()).toMatch(/late_field|stored_reference_denied|not_found/);
    }
    expect((await send({ key: 'of bob' }, model, ['prompt', '[file_id] is a word'], sound)).status).toBe(200);
  });

  it('is refused when the id comes after the file in the form', async () => {
    const form = () => transcription([model, sound, ['file_id', 'any']]);
    const answer = await gateway.fetch('/v1/audio/transcriptions', { ...form(), ...as({ key: 'of bob' }) });
    expect(await errorOf(answer, 400)).toMatchObject({ code: 'late_field', param: 'file_id' });
    expect((await gateway.fetch('/v1/audio/transcriptions', form())).status).toBe(200);
  });
});

describe.each(ownerships.map((of) => [nameOf(of.owner), of] as const))('a list, with objects of %s', (_, of) => {
  it.each([
    ['/v1/files', file],
    ['/v1/batches', batch],
  ] as const)('of %s holds the objects that the caller may see', async (path, make) => {
    const id = await make(of.owner);
    const listed = async (caller: Caller): Promise<string[]> =>
      (await json(await gateway.fetch(`${path}?limit=100`, as(caller)))).data.map((one: { id: string }) => one.id);
    for (const stranger of of.strangers) expect(await listed(stranger), nameOf(stranger)).not.toContain(id);
    for (const friend of of.friends) expect(await listed(friend), nameOf(friend)).toContain(id);
  });

  it.each([
    ['/v1/files', file],
    ['/v1/batches', batch],
  ] as const)('%s continues after the object for friends; for strangers the object is unknown', async (path, make) => {
    const id = await make(of.owner);
    for (const query of ['', '&provider=openai']) {
      const page = (after: string, caller: Caller) => gateway.fetch(`${path}?after=${after}${query}`, as(caller));
      for (const stranger of of.strangers) {
        const missing = await refusalOf(await page('none_at_all', stranger), 'none_at_all');
        expect(await refusalOf(await page(id, stranger), id), nameOf(stranger)).toEqual(missing);
      }
      for (const friend of of.friends) expect((await page(id, friend)).status, nameOf(friend)).toBe(200);
    }
  });
});

describe('an idempotency key', () => {
  it.each([
    ['/v1/chat/completions', { model: translated, messages: user('hi') }],
    ['/v1/responses', { model: translated, input: 'hi' }],
    ['/v1/responses', { model: native, input: 'hi', stream: true }],
    ['/v1/responses', { model: translated, input: 'hi', background: true }],
  ])('on %s belongs to its owner: %j', async (path, body) => {
    const key = { 'idempotency-key': `of-ann-${JSON.stringify(body)}` };
    const post = (caller: Caller) => gateway.post(path, body, { headers: { ...as(caller).headers, ...key } });
    const first = await (await post(owner)).text();
    // A bound key acts at its path: with a header the same caller would be tested twice.
    const others = strangers.filter(({ key, header }) => key === undefined || header === undefined);
    for (const other of [...others, { header: '/team' }, master]) {
      const answer = await post(other);
      expect(answer.headers.get('idempotent-replayed')).toBeNull();
      expect(await answer.text()).not.toBe(first);
    }
    expect((await post(owner)).headers.get('idempotent-replayed')).toBe('true');
  });
});

it('an object that only a provider knows is visible only to callers that see everything', async () => {
  const made = await fetch(`${kinds.nativeUrl}/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${NATIVE_KEY}` },
    body: JSON.stringify({ model: 'simulated-small', input: 'hi' }),
  });
  const { id } = await json(made);
  for (const path of [`/v1/responses/${id}`, `/v1/responses/${id}/input_items`, `/v1/responses/${id}?stream=true`]) {
    for (const caller of [...strangers, owner]) await errorOf(await gateway.fetch(path, as(caller)), 404);
    for (const caller of all) expect((await gateway.fetch(path, as(caller))).status).toBe(200);
  }
});

describe('a stored stream', () => {
  let id = '';
  beforeAll(async () => {
    const answer = await gateway.post('/v1/responses', { model: native, input: 'hi', stream: true }, as(owner));
    id = dataOf(await answer.text())[0].response.id;
  });

  it('is returned to friends and not to strangers, also with starting_after', async () => {
    for (const query of ['', '&starting_after=2', '&provider=openai']) {
      for (const stranger of strangers) {
        await errorOf(await gateway.fetch(`/v1/responses/${id}?stream=true${query}`, as(stranger)), 404);
      }
      for (const friend of friends) {
        expect((await gateway.fetch(`/v1/responses/${id}?stream=true${query}`, as(friend))).status).toBe(200);
      }
    }
  });
});
