/** `ANY /p/{provider}/…`. */
import { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest, HTTPMethods } from 'fastify';
import type { Caller, Client, ModelRequest } from '../commands/exchange/client.ts';
import type { Passthrough } from '../commands/exchange/passthrough.ts';
import { refusals } from '../commands/refusal.ts';
import { forwardedHeaders } from './forwarded-headers.ts';
import type { OpenExchanges } from './open-exchanges.ts';
import type { RequestTags } from './request-tags.ts';
import { callerOf } from './server.ts';

const METHODS: HTTPMethods[] = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'];

export interface PassthroughOptions {
  readonly exchanges: OpenExchanges;
  readonly userPathHeader: string;
  /** Which headers are for the gateway alone. */
  readonly tags: Pick<RequestTags, 'isKeptBack'>;
  readonly bodyLimitBytes: number;
  /** Whether a leading `v1/` is allowed in front of the provider's own path. */
  readonly allowV1Alias: boolean;
  /** Whether providers of this type are open to passthrough. */
  isEnabled(type: string): boolean;
  provider(nameOrType: string): Passthrough['provider'] | undefined;
  /** Whether the caller may use all that the provider offers: its own API names models as it likes. */
  mayUse(caller: Caller, provider: string): boolean;
  readonly run: (call: Passthrough, client: Client) => Promise<void>;
}

/** A body up to here is read whole before anything is done with it; a larger one, or one of unknown size, is streamed. */
const WHOLE_BODY_BYTES = 64 * 1024;

export function registerPassthrough(app: FastifyInstance, options: PassthroughOptions): void {
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', async (_request: FastifyRequest, payload: IncomingMessage) => payload);
    registerRoute(scope, options);
  });
}

function registerRoute(app: FastifyInstance, options: PassthroughOptions): void {
  const userPathHeader = options.userPathHeader.toLowerCase();
  const { bodyLimitBytes, tags } = options;
  const isKeptBack = (name: string) => name === userPathHeader || tags.isKeptBack(name);
  app.route<{ Params: { provider: string; '*': string } }>({
    method: METHODS,
    url: '/p/:provider/*',
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const { provider: name } = request.params;
      const provider = options.provider(name);
      if (provider === undefined) throw refusals.unknownProvider(name);
      if (!options.isEnabled(provider.type)) {
        throw refusals.invalidRequest(
          `Passthrough is not enabled for providers of type '${provider.type}'.`,
          'provider',
        );
      }
      if (!options.mayUse(callerOf(request), provider.name)) throw refusals.providerAccessDenied(name);
      const path = pathBelow(request);
      if (hasDotSegment(path))
        throw refusals.invalidRequest("A passthrough path must not have '.' or '..' segments.", null);
      if (!options.allowV1Alias && /^\/v1(\/|$)/.test(path)) {
        throw refusals.invalidRequest("A passthrough path must not begin with 'v1/' here.", null);
      }
      const headers = forwardedHeaders(request.headers, isKeptBack);
      const body = await bodyOf(request, bodyLimitBytes);
      return options.exchanges.run(request, reply, (modelRequest: ModelRequest, client) =>
        options.run({ request: { ...modelRequest, ...body }, provider, path, headers, bodyLimitBytes }, client),
      );
    },
  });
}

/** @throws Refusal when it is announced to be too large */
async function bodyOf(
  request: FastifyRequest,
  limitBytes: number,
): Promise<{ body: Buffer; bodyPieces?: AsyncIterable<Buffer> }> {
  const nothing = Buffer.alloc(0);
  if (!(request.body instanceof IncomingMessage)) return { body: nothing };
  const announced = request.headers['content-length'];
  const length = announced === undefined ? undefined : Number(announced);
  if (length !== undefined && length > limitBytes) throw refusals.bodyTooLarge(limitBytes);
  if (length === undefined || length > WHOLE_BODY_BYTES) return { body: nothing, bodyPieces: request.body };
  const pieces: Buffer[] = [];
  for await (const piece of request.body) pieces.push(piece);
  return { body: Buffer.concat(pieces) };
}

/** Everything behind `/p/{provider}`, byte for byte, since a provider's path may hold escaped slashes. */
function pathBelow(request: FastifyRequest): string {
  const { url } = request;
  return url.slice(url.indexOf('/', '/p/'.length));
}

/** Also in its escaped forms: what is behind a provider's base path is not for a client to climb out of. */
function hasDotSegment(path: string): boolean {
  const [pathname = ''] = path.split('?', 1);
  return /(^|\/|\\|%2f|%5c)(\.|%2e){1,2}(\/|\\|%2f|%5c|$)/i.test(pathname);
}
