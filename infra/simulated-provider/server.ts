/**
 * A model provider without a model: it implements the APIs of OpenAI, Anthropic and Ollama, gives equal requests equal
 * answers, and produces faults on request. Tests and benchmarks use it, so it depends only on Node.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Rendering } from './chat.ts';
import { deliver } from './delivery.ts';
import { ANTHROPIC, dialectOf } from './dialect.ts';
import { type Fault, FaultPlan } from './fault.ts';
import { type FormFile, isForm, readForm } from './form.ts';
import { isObject, type Json, parseJson } from './json.ts';
import { MODELS, type SimulatedProviderOptions } from './options.ts';
import { type RecordedRequest, Recording } from './recording.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';
import { createRoutes } from './routes.ts';

export type { SimulatedProviderOptions } from './options.ts';
export type { RecordedRequest } from './recording.ts';

export interface SimulatedProvider {
  /** @returns the base URL, ending in `/v1`. Port 0 takes a free one. Each call opens a further port. */
  listen(port?: number, host?: string): Promise<string>;
  /** Drops every open connection. */
  close(): Promise<void>;
  /** The newest requests, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** The next request to arrive, with its body. */
  nextRequest(): Promise<RecordedRequest>;
  readonly control: FaultPlan;
}

/** Created once: creating an error is slow. */
const CLIENT_LEFT = new Error('the client left');

/** Those of this process so far: two that are created in one second give different ids. */
let providers = 0;

export function createSimulatedProvider(options: SimulatedProviderOptions = {}): SimulatedProvider {
  const { words = 16, paceMs = 0, remember = 1000 } = options;
  const models = (options.models ?? MODELS).map((model) => (typeof model === 'string' ? { id: model } : model));
  const started = Math.floor(Date.now() / 1000);
  providers += 1;
  const place = providers.toString(16).padStart(3, '0');
  const control = new FaultPlan();
  const requests: Recording[] = [];
  const waiting: ((request: RecordedRequest) => void)[] = [];
  let ids = 0;

  const rendering = (fault: Fault | undefined): Rendering => ({
    fault,
    words,
    newId: (prefix) =>
      `${prefix}${process.pid.toString(16)}${started.toString(16)}${place}${(++ids).toString(16).padStart(9, '0')}`,
    now: () => Math.floor(Date.now() / 1000),
  });

  const route = createRoutes({ ...options, models, started, control, plain: rendering(undefined) });

  function record(recording: Recording): void {
    requests.push(recording);
    if (requests.length > remember) requests.shift();
    for (const arrived of waiting.splice(0)) arrived(recording);
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request);
    const recording = new Recording(request, body);
    const { method = 'GET', url = '/' } = request;
    const mark = url.indexOf('?');
    const path = mark === -1 ? url : url.slice(0, mark);
    const { json, files, refusal } = await contentOf(body, request.headers['content-type']);
    const fault = control.pick(method, path, isObject(json) ? json : {});
    const left = new AbortController();
    response.on('close', () => {
      recording.end(response.writableFinished ? 'answered' : fault?.cutAfterChunks !== undefined ? 'cut' : 'aborted');
      if (recording.outcome !== 'answered') left.abort(CLIENT_LEFT);
    });
    record(recording);
    const dialect = dialectOf(path, request.headers['anthropic-version']);
    let reply: Reply;
    try {
      authorize(request, options.apiKey);
      if (refusal !== undefined) throw refusal;
      const query = new URLSearchParams(mark === -1 ? '' : url.slice(mark));
      reply = route({ method, path, query, headers: request.headers, json, files }, rendering(fault));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      reply = { status: error.status, json: dialect.errorBody(error) };
    }
    if (dialect === ANTHROPIC) response.setHeader('request-id', 'req_simulated');
    const onFrame = () => {
      recording.framesSent++;
    };
    await deliver(reply, { response, fault, dialect, plan: control, signal: left.signal, paceMs, onFrame });
  }

  const servers: Server[] = [];
  const newServer = () =>
    createServer({ keepAliveTimeout: 60_000, requestTimeout: 0 }, (request, response) => {
      handle(request, response).catch((error: NodeJS.ErrnoException) => {
        if (error === CLIENT_LEFT || error.name === 'AbortError' || error.code === 'ECONNRESET') return;
        console.error('the simulated provider failed:', error);
        response.destroy(error);
      });
    });

  return {
    requests,
    control,
    nextRequest: () => new Promise((resolve) => waiting.push(resolve)),
    async listen(port = 0, host = '127.0.0.1') {
      const server = newServer();
      if (options.upgrade !== undefined) server.on('upgrade', options.upgrade);
      servers.push(server);
      await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, 1024, resolve));
      const address = server.address();
      return `http://${host}:${typeof address === 'object' && address ? address.port : port}/v1`;
    },
    async close() {
      await Promise.all(
        servers.map((server) => {
          const closed = new Promise((resolve) => server.close(resolve));
          server.closeAllConnections();
          return closed;
        }),
      );
    },
  };
}

function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  return new Promise((resolve, reject) => {
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => resolve(parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts)));
    request.on('error', reject);
  });
}

interface Content {
  readonly json: Json | undefined;
  readonly files: readonly FormFile[] | undefined;
  /** Why the body could not be read. */
  readonly refusal: Refused | undefined;
}

const NOTHING: Content = { json: undefined, files: undefined, refusal: undefined };

async function contentOf(body: Buffer, contentType: string | undefined): Promise<Content> {
  if (body.length === 0) return NOTHING;
  if (!isForm(contentType)) return { ...NOTHING, json: parseJson(body.toString()) };
  try {
    const { fields, files } = await readForm(body, contentType);
    return { json: fields, files, refusal: undefined };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { ...NOTHING, refusal: error };
  }
}

function authorize({ headers }: IncomingMessage, apiKey: string | undefined): void {
  if (apiKey === undefined || headers.authorization === `Bearer ${apiKey}` || headers['x-api-key'] === apiKey) return;
  throw new Refused(401, 'Incorrect API key provided.', { code: 'invalid_api_key' });
}
