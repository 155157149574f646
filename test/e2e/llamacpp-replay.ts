/** A llama.cpp server that replays a real one: recorded pairs of request and answer, matched by path and body. */
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { root } from './gateway-process.ts';

const pair = z.object({
  request: z.object({ method: z.string(), path: z.string(), body: z.unknown() }),
  response: z.object({ status: z.number(), content_type: z.string(), body: z.unknown() }),
});

export type RecordedPair = z.infer<typeof pair>;

const folder = join(root, 'test/providers/fixtures/llamacpp');

export function recordedPair(name: string): RecordedPair {
  return pair.parse(JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')));
}

export interface Replayed {
  readonly method: string;
  readonly path: string;
  readonly body: string;
}

export interface LlamacppReplay {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly requests: Replayed[];
  close(): Promise<void>;
}

/** Of the two recorded model lists the one with an alias is served. */
export async function startLlamacppReplay(): Promise<LlamacppReplay> {
  const names = readdirSync(folder).map((file) => file.slice(0, -'.json'.length));
  const pairs = names.filter((name) => name !== 'models.noalias').map(recordedPair);
  const requests: Replayed[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const { method = '', url: path = '' } = request;
      const body = Buffer.concat(pieces).toString();
      requests.push({ method, path, body });
      const { status, content_type, body: answer } = answerTo(pairs, { method, path, body });
      response.writeHead(status, { 'content-type': content_type });
      response.end(typeof answer === 'string' ? answer : JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The model's name is ignored, since the server answers any. A body that was not recorded gets a similar answer. */
function answerTo(pairs: readonly RecordedPair[], requested: Replayed): RecordedPair['response'] {
  const there = pairs.filter(({ request }) => request.method === requested.method && request.path === requested.path);
  const body = withoutModel(parsed(requested.body));
  const exact = there.find(({ request }) => isDeepStrictEqual(withoutModel(request.body ?? undefined), body));
  const kindred = there.find(
    ({ request, response }) => response.status === 200 && isStream(request.body) === isStream(parsed(requested.body)),
  );
  return (exact ?? kindred ?? there[0] ?? recordedPair('responses.error.absent')).response;
}

function parsed(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

function withoutModel(body: unknown): unknown {
  if (typeof body !== 'object' || body === null) return body;
  return Object.fromEntries(Object.entries(body).filter(([name]) => name !== 'model'));
}

function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && Reflect.get(body, 'stream') === true;
}
