/** `ANY /p/{provider}/…`. */
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import type { Passthrough, RefusedPassthrough } from '../commands/exchange/dialects/passthrough/passthrough-dialect.ts';
import { KEPT_BODY_BYTES } from '../commands/exchange/record/end-events.ts';
import { isCredentialHeader } from '../commands/header-names.ts';
import type { Caller, Client, ModelRequest } from '../commands/model-request/model-request.ts';
import { Refusal, refusals } from '../commands/refusal.ts';
import { maySeeEverything } from '../commands/visibility.ts';
import type { BodyBounds } from '../json/body-scan.ts';
import { mediaAnswer, pathParameters, type Routes } from './api/route-schema.ts';
import { checkEncoding } from './bodies.ts';
import type { OpenExchanges } from './open-exchanges.ts';
import type { RequestTags } from './request-head.ts';
import { callerOf, checkedJson, decodedWhole } from './server.ts';
import { upgradeOf } from './upgrade.ts';

interface StatelessRoutes {
  has(providerType: string, method: string, path: string): boolean;
}

interface PassthroughRoute {
  Params: { provider: string; '*': string };
}
type PassthroughRequest = FastifyRequest<PassthroughRoute>;

const METHODS: HTTPMethods[] = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'];

interface PassthroughOptions {
  readonly exchanges: OpenExchanges;
  readonly userPathHeader: string;
  /** Headers that are not forwarded to providers. */
  readonly tags: Pick<RequestTags, 'isRemoved'>;
  /** Names in lower case that are allowed beside the usual ones, of requests and of answers. */
  readonly addedHeaders: { readonly request: ReadonlySet<string>; readonly answer: ReadonlySet<string> };
  /** Size limits in bytes: of a body that is checked before it is forwarded, and of a streamed body. */
  readonly limits: { readonly whole: number; readonly streamed: number };
  /** Of the JSON in a body that is checked. */
  readonly bounds: BodyBounds;
  /** Whether a leading `v1/` is allowed in front of the provider's own path. */
  readonly allowV1Alias: boolean;
  /** Whether passthrough is enabled for providers of this type. */
  isEnabled(type: string): boolean;
  provider(nameOrType: string): Passthrough['provider'] | undefined;
  /** Whether the caller may use all models of the provider: its own API can name any of them. */
  mayUse(caller: Caller, provider: string): boolean;
  /** The routes of a provider that do not touch stored objects. All others need a caller with unrestricted visibility. */
  readonly stateless: StatelessRoutes;
  /** Whether budgets may count a request: JSON is then read completely, since it names the model. */
  countsBudgets(): boolean;
  /** Opens a session over a WebSocket; undefined where requests to upgrade are requests like any other. */
  readonly acceptSocket:
    | ((
        request: FastifyRequest,
        reply: FastifyReply,
        call: Pick<Passthrough, 'provider' | 'path' | 'headers'>,
      ) => Promise<void>)
    | undefined;
  /** Also runs a refused call, which is then recorded. */
  readonly run: (call: Omit<Passthrough, 'listedModels'> | RefusedPassthrough, client: Client) => Promise<void>;
}

/** A body up to this size is read completely first; a larger one, or one of unknown size, is streamed. */
const WHOLE_BODY_BYTES = 64 * 1024;
/** How long a refusal waits for the body that is recorded with it. */
const REFUSED_BODY_MS = 1000;

export function registerPassthrough(app: Routes, options: PassthroughOptions): void {
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', async (_request: FastifyRequest, payload: Readable) => payload);
    registerRoute(scope, options);
  });
}

const callProvider = {
  operationId: 'passthrough',
  summary: "Call a provider's own API",
  description:
    "OpenAI's paths go to the `/v1` base of a local server, all others to its root. Errors have the envelope. A key with " +
    'restricted sight reaches only routes that touch no stored objects: 403 `passthrough_scope_denied` elsewhere.',
  tag: 'passthrough',
  params: pathParameters({ provider: 'Name or type of the provider', path: "The provider's path, with slashes" }),
  bodyType: '*/*',
  response: { 200: mediaAnswer("The provider's answer, with its own status", '*/*') },
  errors: [404, 409, 413, 415, 429, 502, 504],
} as const;

function registerRoute(app: Routes, options: PassthroughOptions): void {
  const userPathHeader = options.userPathHeader.toLowerCase();
  const { limits, tags, addedHeaders } = options;
  const isRemoved = (name: string) => name === userPathHeader || tags.isRemoved(name);
  app.route<PassthroughRoute>({
    method: METHODS,
    url: '/p/:provider/*',
    exposeHeadRoute: false,
    config: { access: 'passthrough' },
    schema: callProvider,
    handler: async (request, reply) => {
      const call = await callOrRefusal(request);
      if (options.acceptSocket !== undefined && !('refusal' in call) && upgradeOf(request.raw) !== undefined) {
        return options.acceptSocket(request, reply, call);
      }
      return options.exchanges.run(request, reply, (modelRequest: ModelRequest, client) =>
        options.run(
          'refusal' in call
            ? { ...call, request: { ...modelRequest, body: call.body } }
            : { ...call, request: { ...modelRequest, ...call.body } },
          client,
        ),
      );
    },
  });

  async function callOrRefusal(request: PassthroughRequest) {
    const read: { body?: Buffer } = {};
    try {
      return await callOf(request, read);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const isTooLarge = error.status === 413;
      const body = read.body ?? (isTooLarge ? Buffer.alloc(0) : await beginningOf(request));
      return { refusal: error, provider: options.provider(request.params.provider), body };
    }
  }

  /** @param read gets the body once it was read. @throws Refusal */
  async function callOf(request: PassthroughRequest, read: { body?: Buffer }) {
    const { provider: name } = request.params;
    const provider = options.provider(name);
    if (provider === undefined) throw refusals.unknownProvider(name);
    if (!options.isEnabled(provider.type)) {
      throw refusals.invalidRequest(`Passthrough is not enabled for providers of type '${provider.type}'.`, 'provider');
    }
    const caller = callerOf(request);
    if (!options.mayUse(caller, provider.name)) throw refusals.providerAccessDenied(name);
    const path = pathBelow(request);
    if (hasDotSegment(path)) {
      throw refusals.invalidRequest("A passthrough path must not have '.' or '..' segments.", null);
    }
    if (!options.allowV1Alias && /^\/v1(\/|$)/.test(path)) {
      throw refusals.invalidRequest("The path of this passthrough route must not begin with 'v1/'.", null);
    }
    // A user path from a header does not restrict the credential.
    const isRestricted = !maySeeEverything(caller);
    if (isRestricted && !options.stateless.has(provider.type, request.method, path)) {
      throw refusals.passthroughScopeDenied(request.method, path.split('?', 1)[0] ?? path);
    }
    const body = await bodyOf(
      request,
      limits,
      isRestricted || (options.countsBudgets() && isPlainJson(request, limits.whole)),
    );
    read.body = body.body;
    if (isRestricted) checkedJson(request, body.body, options.bounds);
    const headers = forwardedHeaders(request.headers, isRemoved, addedHeaders.request);
    return {
      provider,
      path,
      headers,
      addedAnswerHeaders: addedHeaders.answer,
      body,
      bodyLimitBytes: limits.streamed,
      bounds: options.bounds,
    };
  }
}

/** Whether the body is JSON of at most this size that is not encoded. */
function isPlainJson({ headers }: FastifyRequest, limitBytes: number): boolean {
  const isJson = /^application\/json\b/i.test(headers['content-type'] ?? '');
  return isJson && headers['content-encoding'] === undefined && Number(headers['content-length']) <= limitBytes;
}

/**
 * @param isParsed the body is read completely, whatever its size, and decoded; the provider receives it decoded,
 *   so that it reads the same bytes as the gateway
 * @throws Refusal when it is too large, or cannot be decoded
 */
async function bodyOf(
  request: FastifyRequest,
  { whole, streamed }: PassthroughOptions['limits'],
  isParsed: boolean,
): Promise<{ body: Buffer; bodyPieces?: AsyncIterable<Buffer> }> {
  const nothing = Buffer.alloc(0);
  if (!(request.body instanceof Readable)) return { body: nothing };
  const limitBytes = isParsed ? Math.min(whole, streamed) : streamed;
  const announced = request.headers['content-length'];
  const length = announced === undefined ? undefined : Number(announced);
  if (length !== undefined && length > limitBytes) throw refusals.bodyTooLarge(limitBytes);
  if (!isParsed && (length === undefined || length > WHOLE_BODY_BYTES)) {
    return { body: nothing, bodyPieces: request.body };
  }
  if (isParsed) checkEncoding(request.headers);
  const body = await wholeBody(request.body, limitBytes);
  return { body: isParsed ? await decodedWhole(request, body, limitBytes) : body };
}

/**
 * The body of a request that is refused unread, as it arrives within a second: all of a short one, the beginning of
 * another. The rest stays unread, and the connection is open for the error.
 */
async function beginningOf({ body, headers }: FastifyRequest): Promise<Buffer> {
  if (!(body instanceof Readable) || body.readableEnded) return Buffer.alloc(0);
  const length = Number(headers['content-length'] ?? Number.POSITIVE_INFINITY);
  const wanted = length <= WHOLE_BODY_BYTES ? length : KEPT_BODY_BYTES;
  const pieces: Buffer[] = [];
  let missing = wanted;
  const { promise, resolve } = Promise.withResolvers<void>();
  const take = (piece: Buffer) => {
    pieces.push(piece);
    missing -= piece.length;
    if (missing <= 0) resolve();
  };
  const timer = setTimeout(resolve, REFUSED_BODY_MS);
  body.on('data', take).once('end', resolve).once('close', resolve);
  await promise;
  clearTimeout(timer);
  body.off('data', take).off('end', resolve).off('close', resolve).pause();
  return Buffer.concat(pieces).subarray(0, wanted);
}

/** @throws Refusal when it is too large, or the client disconnects before its end */
async function wholeBody(stream: Readable, limitBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let size = 0;
  try {
    for await (const piece of stream) {
      size += piece.length;
      if (size > limitBytes) throw refusals.bodyTooLarge(limitBytes);
      pieces.push(piece);
    }
  } catch (error) {
    throw error instanceof Refusal ? error : refusals.requestCanceled();
  }
  return Buffer.concat(pieces);
}

/** The part after `/p/{provider}`, byte for byte, since a provider's path may contain escaped slashes. */
function pathBelow(request: FastifyRequest): string {
  const { url } = request;
  return url.slice(url.indexOf('/', '/p/'.length));
}

/** Also in escaped form: a client must not leave the provider's base path. */
function hasDotSegment(path: string): boolean {
  const [pathname = ''] = path.split('?', 1);
  return /(^|\/|\\|%2f|%5c)(\.|%2e){1,2}(\/|\\|%2f|%5c|$)/i.test(pathname);
}

// The client headers that are forwarded to a provider's own API: a list of allowed names, since a credential can have any
// name. A setting adds further names.

/** Headers of HTTP about the content of the request, and those by which providers' SDKs and agents name themselves. */
const FORWARDED: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'baggage',
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-length',
  'content-md5',
  'content-range',
  'content-type',
  'conversation_id',
  'date',
  'http-referer',
  'idempotency-key',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'originator',
  'prefer',
  'range',
  'session_id',
  'traceparent',
  'tracestate',
  'user-agent',
  'x-app',
  'x-client-name',
  'x-client-request-id',
  'x-idempotency-key',
  'x-ms-client-request-id',
  'x-ms-useragent',
  'x-session-id',
  'x-title',
]);

/** What the SDKs of each family send after its name. */
const SDK_HEADERS: Readonly<Record<string, string>> = {
  anthropic: 'version beta dangerous-direct-browser-access client-platform client-version client-sha workspace-id',
  openai: 'organization project beta version conversation-id intent safety-identifier',
  'x-goog':
    'api-client user-project request-params request-reason fieldmask hash upload-protocol upload-command upload-offset ' +
    'upload-file-name upload-content-type upload-header-content-length upload-header-content-type visibilities',
  'x-stainless':
    'lang package-version os arch runtime runtime-version async retry-count timeout read-timeout helper helper-method ' +
    'poll-helper custom-poll-interval raw-response',
};
const OF_SDKS: ReadonlySet<string> = new Set(
  Object.entries(SDK_HEADERS).flatMap(([family, rest]) => rest.split(' ').map((name) => `${family}-${name}`)),
);

/** Agents, whose headers change with each version. */
const AGENTS = /^x-(?:anthropic|claude|codex|openai)-/;
/** Parts of their names that are credentials, beside those that are one everywhere. */
const NOT_OF_AGENTS =
  /(?:key|token|secret|auth|password|passwd|credential|signature|jwt|assertion|cookie)s(?:-|$)|-(?:auth.*|bearer|pat|pass.*|pwd|pins?|otps?|private|login|sid|sess|sessid|access|tok)(?:-|$)/;

/** Headers of the gateway or of the connection. No setting adds them. */
const NEVER_FORWARDED: ReadonlySet<string> = new Set([
  'accept-encoding',
  'connection',
  'expect',
  'forwarded',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-cache-control',
  'x-cache-semantic-threshold',
  'x-cache-ttl',
  'x-cache-type',
  'x-request-id',
]);

function isOfProviders(name: string): boolean {
  return FORWARDED.has(name) || OF_SDKS.has(name) || (AGENTS.test(name) && !NOT_OF_AGENTS.test(name));
}

/** Whether a setting can add the name. @param name in lower case */
export function mayBeForwarded(name: string): boolean {
  return !NEVER_FORWARDED.has(name) && !isCredentialHeader(name) && !name.startsWith('x-forwarded-');
}

/**
 * The allowed headers except credentials, those named in `Connection` (RFC 9110 §7.6.1), and those kept back.
 * @param added further allowed names, in lower case
 */
function forwardedHeaders(
  given: IncomingHttpHeaders,
  isRemoved: (name: string) => boolean,
  added: ReadonlySet<string>,
): Record<string, string> {
  const ofConnection = given.connection?.toLowerCase().split(/[\s,]+/) ?? [];
  const headers: Record<string, string> = {};
  for (const name in given) {
    const value = given[name];
    if (value === undefined || !(isOfProviders(name) || added.has(name))) continue;
    if (!mayBeForwarded(name) || isRemoved(name) || ofConnection.includes(name)) continue;
    headers[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return headers;
}
