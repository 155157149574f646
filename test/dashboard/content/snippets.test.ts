import { execFile, spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runNow } from '../../../dashboard/src/content/sliced.ts';
import { curlSnippet, quoteForShell } from '../../../dashboard/src/content/snippets/curl-snippet.ts';
import type { RecordedRequest, Snippet } from '../../../dashboard/src/content/snippets/recorded-request.ts';
import { pythonSnippet, typeScriptSnippet } from '../../../dashboard/src/content/snippets/sdk-snippets.ts';
import { countOf } from '../../support/seed.ts';

const run = promisify(execFile);
const shells = ['sh', 'bash'].filter((shell) => spawnSync(shell, ['-c', 'true']).status === 0);
const hasCurl = spawnSync('curl', ['--version']).status === 0;
const hasPython = spawnSync('python3', ['--version']).status === 0;

function recorded(body: string | Uint8Array, rest: Partial<RecordedRequest> = {}): RecordedRequest {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  return {
    gateway: 'http://localhost:8080',
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { 'content-type': 'application/json' },
    body: bytes,
    ...rest,
  };
}

function codeOf(snippet: Snippet): string {
  if ('unavailable' in snippet) throw new Error(snippet.unavailable);
  return snippet.code;
}

const tricky = fc.array(
  fc.constantFrom(
    "'",
    '"',
    '\\',
    '$(id)',
    '`id`',
    '$API_KEY',
    '!!',
    '\n',
    '\t',
    ' ',
    '@file',
    '-X',
    '%s',
    '\\n',
    ';',
    '&',
    '#',
    '😀',
    'é',
    'a',
    '\u202e',
    '\0',
    '\u001b[201~',
    '\r',
    '\ufeff',
  ),
  { maxLength: 30 },
);

/** What `curl` receives as body when the shell runs the snippet: curl is replaced by a function that prints it. */
function bodyFromShell(shell: string, code: string): Buffer {
  const program = `curl() { for one; do case "$last" in --data-raw) printf %s "$one";; esac; [ "$one" = @- ] && cat; last=$one; done; }\n${code}\n`;
  const { status, stdout, stderr } = spawnSync(shell, ['-s'], { input: program, maxBuffer: 50_000_000 });
  expect(stderr.toString()).toBe('');
  expect(status === 0 || status === 1).toBe(true);
  return stdout;
}

describe('quoteForShell', () => {
  it.each(shells)('gives %s exactly the text', (shell) => {
    fc.assert(
      fc.property(tricky, (parts) => {
        const text = parts.join('').replaceAll('\0', '');
        const { stdout } = spawnSync(shell, ['-s'], { input: `printf %s ${quoteForShell(text)}` });
        expect(stdout.toString()).toBe(text);
      }),
      { numRuns: countOf(15, 60) },
    );
  });
});

describe('curlSnippet', () => {
  it.each(shells)('passes exactly the recorded body, with any content: %s', (shell) => {
    const bodies = fc.oneof(
      tricky.map((parts) => new TextEncoder().encode(parts.join(''))),
      fc.uint8Array({ maxLength: 40 }),
    );
    fc.assert(
      fc.property(bodies, (body) => {
        expect(bodyFromShell(shell, codeOf(curlSnippet(recorded(body))))).toEqual(Buffer.from(body));
      }),
      { numRuns: countOf(15, 60) },
    );
  });

  it('passes a body that is longer than one argument may be', () => {
    const body = JSON.stringify({ text: "it's ".repeat(60_000) });
    expect(bodyFromShell('sh', codeOf(curlSnippet(recorded(body)))).toString()).toBe(body);
  });

  it('contains no control character that a terminal could act on', () => {
    fc.assert(
      fc.property(tricky, (parts) => {
        expect(codeOf(curlSnippet(recorded(parts.join(''))))).not.toMatch(/(?![\t\n])\p{Cc}/u);
      }),
    );
  });

  it('names the key by a variable and leaves out headers of the connection and of credentials', () => {
    const headers = {
      'content-type': 'application/json',
      authorization: '[redacted]',
      'x-api-key': 'secret',
      cookie: 'a=b',
      'user-agent': 'x',
      'x-gateway-user-path': "/team/o'neil",
      'X-Custom': ['a', 'b'],
      'idempotency-key': 'k',
    };
    expect(codeOf(curlSnippet(recorded('{}', { headers })))).toBe(
      [
        "curl 'http://localhost:8080/v1/chat/completions' \\",
        '  -H "Authorization: Bearer $API_KEY" \\',
        "  -H 'content-type: application/json' \\",
        "  -H 'x-gateway-user-path: /team/o'\\''neil' \\",
        "  -H 'x-custom: a, b' \\",
        "  --data-raw '{}'",
      ].join('\n'),
    );
    expect(codeOf(curlSnippet(recorded('', { method: 'GET', path: '/v1/models' })))).toContain("-X 'GET'");
    expect(codeOf(curlSnippet(recorded('{"stream": true}', { path: '/v1/messages' })))).toMatch(
      /x-api-key: \$API_KEY[\s\S]*-N/,
    );
  });

  it.skipIf(!hasCurl)('sends the recorded request when curl runs it', async () => {
    const received: { body: string; key: string | undefined; path: string | undefined }[] = [];
    const server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => {
        received.push({
          body: Buffer.concat(pieces).toString(),
          key: request.headers.authorization,
          path: request.url,
        });
        response.end('{}');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
    const { port } = server.address() as AddressInfo;
    const bodies = [
      '{"a":"it\'s @ $HOME \\n\\u0000 😀\nsecond line"}',
      '@/etc/hostname',
      'a\u001b[31m\0b\r\n',
      JSON.stringify({ long: 'x\n'.repeat(100_000) }),
    ];
    for (const body of bodies) {
      const code = codeOf(curlSnippet(recorded(body, { gateway: `http://127.0.0.1:${port}` })));
      const child = run('sh', ['-s'], { env: { ...process.env, API_KEY: 'sk-test' } });
      child.child.stdin?.end(code);
      await child;
    }
    await new Promise((resolve) => server.close(resolve));
    expect(received.map(({ body }) => body)).toEqual(bodies);
    expect(received[0]).toMatchObject({ key: 'Bearer sk-test', path: '/v1/chat/completions' });
  });
});

const strings = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  tricky.map((parts) => parts.join('')),
  fc.constant('__proto__'),
);
const bodies = fc
  .dictionary(strings, fc.jsonValue({ maxDepth: 3 }), { maxKeys: 5 })
  .chain((rest) =>
    fc
      .record({ messages: fc.array(fc.record({ role: fc.constant('user'), content: strings })), model: strings })
      .map((body) => ({ ...rest, ...body })),
  );

describe('typeScriptSnippet', () => {
  it('contains the recorded body as a literal', () => {
    fc.assert(
      fc.property(bodies, (body) => {
        const source = JSON.stringify(body);
        const code = codeOf(runNow(typeScriptSnippet('chat', recorded(source))));
        const literal = code.slice(code.indexOf('create(') + 'create('.length, code.lastIndexOf(');\nconsole.log'));
        const value = new Function(`return (${literal})`)() as unknown;
        expect(JSON.parse(JSON.stringify(value))).toEqual(JSON.parse(source));
        expect(code).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('is a complete program for each SDK', () => {
    const body = '{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}';
    expect(
      codeOf(runNow(typeScriptSnippet('chat', recorded(body, { headers: { 'x-gateway-user-path': '/a' } })))),
    ).toBe(`import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: "http://localhost:8080/v1",
  apiKey: process.env.API_KEY,
  defaultHeaders: { "x-gateway-user-path": "/a" },
});

const answer = await client.chat.completions.create({
  model: "m",
  messages: [{ role: "user", content: "Hi" }],
  stream: true,
});
for await (const event of answer) console.log(event);
`);
    const anthropic = codeOf(runNow(typeScriptSnippet('messages', recorded(body))));
    expect(anthropic).toContain("import Anthropic from '@anthropic-ai/sdk'");
    expect(anthropic).toContain('baseURL: "http://localhost:8080",');
  });

  it('names what a program cannot repeat', () => {
    const notes = (body: string) => {
      const snippet = runNow(typeScriptSnippet('chat', recorded(body)));
      return 'notes' in snippet ? snippet.notes.slice(1).join() : snippet.unavailable;
    };
    expect(notes('{"seed":12345678901234567890}')).toContain('rounds');
    expect(notes('{"a":1,"a":2}')).toContain('several members');
    expect(notes('[1]')).toContain('not a JSON object');
    expect(notes(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`)).toContain('nested too deeply');
    expect(notes('{"a":1}')).toBe('');
  });
});

describe.skipIf(!hasPython)('pythonSnippet', () => {
  it('calls the SDK with the recorded body', () => {
    const samples = fc.sample(bodies, { numRuns: 40, seed: 7 }).map((body) => JSON.stringify(body));
    const exact =
      '{"model":"m","messages":[],"seed":12345678901234567890123,"new_parameter":{"x":[true,null,1.5]},"user":"\\ud83d\\ude00 \\udb40\\udc41"}';
    const sources = [...samples, exact];
    const programs = sources.map((source) => codeOf(runNow(pythonSnippet('chat', recorded(source)))));
    // The SDK is replaced by a recorder of what the program passes to it.
    const checker = `
import sys, json, types, os, io
os.environ["API_KEY"] = "k"
received = []
def create(extra_body=None, **named):
    received.append({**named, **(extra_body or {})})
    return []
class OpenAI:
    def __init__(self, **options):
        self.chat = types.SimpleNamespace(completions=types.SimpleNamespace(create=create))
sys.modules["openai"] = types.SimpleNamespace(OpenAI=OpenAI)
programs, sources = json.load(sys.stdin)
stdout, sys.stdout = sys.stdout, io.StringIO()
for program in programs: exec(program, {})
sys.stdout = stdout
for source, body in zip(sources, received):
    if json.loads(source) != body: print("differs:", ascii(source), ascii(body))
print(len(received))
`;
    const { stdout, stderr } = spawnSync('python3', ['-c', checker], { input: JSON.stringify([programs, sources]) });
    expect(stderr.toString()).toBe('');
    expect(stdout.toString().trim()).toBe(String(sources.length));
  });
});
