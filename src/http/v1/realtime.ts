/**
 * Realtime sessions: `GET /v1/realtime` and WebSockets of providers' own APIs, client secrets for browsers, and calls over
 * WebRTC.
 */
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import type { ModelAccess } from '../../commands/access/model-access.ts';
import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import { isCredentialParameter } from '../../commands/header-names.ts';
import type { Client, ModelRequest } from '../../commands/model-request/model-request.ts';
import { CALLS, callDialect } from '../../commands/realtime/call-dialect.ts';
import { type CreatedSecret, clientSecretRequest, sessionOfSecret } from '../../commands/realtime/client-secret.ts';
import { transcriptionRequested } from '../../commands/realtime/messages.ts';
import {
  passthroughSessionDialect,
  REALTIME,
  realtimeDialect,
  type SessionDependencies,
} from '../../commands/realtime/realtime-dialect.ts';
import { SessionClient } from '../../commands/realtime/session-client.ts';
import { Refusal, refusals } from '../../commands/refusal.ts';
import { checkRequest } from '../../commands/request-check.ts';
import type { EventContext } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { messageSocketOf } from '../../network/message-socket.ts';
import { anyKey, emptyAnswer, exchangeRoute, jsonAnswer, mediaAnswer, type Routes } from '../api/route-schema.ts';
import type { Authenticator } from '../auth.ts';
import { toRefusal } from '../errors.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import type { OpenSocket, OpenSockets, SocketLimits } from '../open-sockets.ts';
import type { RequestRecorder } from '../request-recorder.ts';
import { bodyLimitOf, bodyOf, callerOf, eventContextOf } from '../server.ts';
import { providerErrors } from './declare.ts';
import { acceptUnparsedForms, formOf } from './model-routes.ts';

export interface RealtimeOptions {
  readonly exchanges: OpenExchanges;
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly recorder: RequestRecorder;
  readonly sockets: OpenSockets;
  readonly sessions: SessionDependencies;
  readonly access: Pick<ModelAccess, 'allows' | 'allowsProvider'>;
  readonly log: EventLog;
  createSecret(
    given: z.infer<typeof clientSecretRequest>,
    request: { readonly caller: ReturnType<typeof callerOf>; readonly context: EventContext },
  ): Promise<CreatedSecret>;
  readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
  /** The name of the provider in a selector; undefined where it names none. */
  providerIn(selector: string): string | undefined;
  /** Why the JSON of a message is not accepted; undefined when it is. */
  problemOf(message: Buffer): Refusal | undefined;
  /** Read for each socket. */
  readonly stallTimeoutMs: number;
  readonly limits: SocketLimits;
}

const secretsAccepted = <Route extends { readonly config: object }>(route: Route) => ({
  ...route,
  config: { ...route.config, clientSecrets: true as const },
});

const connect = secretsAccepted(
  anyKey('connectRealtime', 'Open a realtime session', {
    description: 'An upgrade to a WebSocket; see docs/realtime.md.',
    tag: 'realtime',
    exposeHeadRoute: false,
    response: { 101: emptyAnswer('The connection is a WebSocket') },
    errors: [400, 426, 429, 503],
  }),
);

const createSecret = anyKey('createClientSecret', 'Create a client secret for realtime sessions', {
  description: 'A browser begins sessions with it in place of the key. It has the rights and the limits of the key.',
  tag: 'realtime',
  body: clientSecretRequest,
  example: {
    expires_after: { anchor: 'created_at', seconds: 600 },
    session: { type: 'realtime', model: 'openai/gpt-realtime' },
  },
  response: {
    200: jsonAnswer(
      'The secret, which is not shown again',
      z.looseObject({
        value: z.string(),
        expires_at: z.int().describe('Unix time in seconds'),
        session: z.looseObject({}).describe('The configuration of its sessions'),
      }),
    ),
  },
  errors: [413],
});

const createCall = secretsAccepted(
  exchangeRoute('createRealtimeCall', 'Begin a realtime session over WebRTC', {
    description: "The body is the client's SDP, or a form with `sdp` and `session`. Audio passes without the gateway.",
    tag: 'realtime',
    body: { type: 'string', description: 'SDP' },
    bodyType: 'application/sdp',
    response: { 201: mediaAnswer("The provider's SDP", 'application/sdp') },
    errors: providerErrors,
  }),
);

export function registerRealtime(app: Routes, options: RealtimeOptions): void {
  const { exchanges, sessions, log, run } = options;

  app.get(REALTIME, connect, async (request, reply) => {
    await acceptSession(options, request, reply, true, async (modelRequest, client) => {
      const { model, provider, query } = queryOf(request);
      const session = await secretSession(request, log, model);
      const chosen = model ?? modelIn(session);
      const { problemOf } = options;
      const given = { request: modelRequest, client, problemOf, provider, query, session };
      return realtimeDialect({ ...given, model: chosen }, sessions);
    });
  });

  app.post(`${REALTIME}/client_secrets`, createSecret, async (request) => {
    const given = checkRequest(clientSecretRequest, jsonOf(bodyOf(request)), ['session']);
    if (!given.ok) throw new Refusal({ ...given.refusal, type: 'invalid_request_error' });
    const { session } = given.request;
    const caller = callerOf(request);
    // Of a virtual model, the target and with it the provider is known when a session begins.
    const provider = options.providerIn(session.model);
    const transcriptions = provider === undefined ? [] : transcriptionRequested({ type: 'session.update', session });
    for (const model of transcriptions) {
      if (provider === undefined || options.access.allows(caller, provider, model)) continue;
      throw refusals.modelAccessDenied(model);
    }
    return options.createSecret(given.request, { caller, context: eventContextOf(request) });
  });

  app.register(async (scope) => {
    acceptUnparsedForms(scope);
    scope.post(CALLS, createCall, async (request, reply) => {
      const { model, provider } = queryOf(request);
      const session = await secretSession(request, log, model);
      const dialect = callDialect({
        ...{ model: model ?? modelIn(session), provider, session },
        limitBytes: bodyLimitOf(request),
        hasRealtime: sessions.hasRealtime,
        mayUse: (name, one) => options.access.allows(callerOf(request), name, one),
      });
      return exchanges.run(request, reply, (modelRequest, client) =>
        run(dialect, { ...modelRequest, ...formOf(request) }, client),
      );
    });
  });
}

/** The call of `/p/{provider}/…` with an upgrade. */
export interface SocketCall {
  readonly provider: Parameters<typeof passthroughSessionDialect>[0]['target']['provider'];
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

export function acceptPassthroughSocket(
  options: RealtimeOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  { provider, path, headers }: SocketCall,
): Promise<void> {
  const target = { provider, model: '' };
  const given = { target, path: withoutCredentials(path), headers, problemOf: options.problemOf };
  return acceptSession(options, request, reply, false, async (modelRequest, client) =>
    passthroughSessionDialect({ request: modelRequest, client, ...given }, options.sessions),
  );
}

/** The path without parameters that may hold the client's key. */
function withoutCredentials(path: string): string {
  const [pathname = '', ...rest] = path.split('?');
  const kept = rest
    .join('?')
    .split('&')
    .filter((one) => !isCredentialParameter(one.split('=', 1)[0] ?? ''));
  return kept.join('&') === '' ? pathname : `${pathname}?${kept.join('&')}`;
}

function jsonOf(body: Buffer): unknown {
  try {
    return parseExactly(body.toString());
  } catch (error) {
    throw refusals.malformedJson(error instanceof Error ? error.message : 'it cannot be read');
  }
}

/** Parameters that the provider gets. Others may name what the gateway does not check: a deployment, or the call of another client. */
const PASSED: ReadonlySet<string> = new Set(['intent']);

/** @throws Refusal 400 */
function queryOf({ url }: FastifyRequest) {
  const mark = url.indexOf('?');
  const given = new URLSearchParams(mark === -1 ? '' : url.slice(mark));
  const query = new URLSearchParams();
  const own: Record<string, string | undefined> = { model: undefined, provider: undefined };
  const seen = new Set<string>();
  for (const [name, value] of given) {
    if (isCredentialParameter(name)) continue;
    if (!Object.hasOwn(own, name) && !PASSED.has(name)) {
      const known = "A realtime session has the parameters 'model', 'provider' and 'intent'.";
      throw refusals.invalidRequest(`${known} '${name.slice(0, 100)}' is not passed on.`, name, 'unknown_parameter');
    }
    if (seen.has(name)) throw refusals.invalidRequest(`The parameter '${name}' is given more than once.`, name);
    seen.add(name);
    if (PASSED.has(name)) query.set(name, value);
    else own[name] = value || undefined;
  }
  return { model: own.model, provider: own.provider, query };
}

function modelIn(session: Readonly<Record<string, unknown>> | undefined): string | undefined {
  return typeof session?.model === 'string' ? session.model : undefined;
}

/** The configuration of a client secret; undefined for a key. @throws Refusal when the client names another model */
async function secretSession(request: FastifyRequest, log: EventLog, model: string | undefined) {
  const { clientSecret } = callerOf(request);
  if (clientSecret === undefined) return undefined;
  const session = await sessionOfSecret(clientSecret, log);
  if (model !== undefined && model !== modelIn(session)) {
    throw refusals.invalidRequest('The client secret is for another model.', 'model', 'model_mismatch');
  }
  return session;
}

/** @param sendsErrors as of `SessionClient` */
function acceptSession(
  options: RealtimeOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  sendsErrors: boolean,
  dialectOf: (request: ModelRequest, client: SessionClient) => Promise<ExchangeDialect>,
): Promise<void> {
  const open = (webSocket: WebSocket, connection: Socket) => {
    const opened = new SessionSocket(webSocket, connection, request, options, sendsErrors);
    void opened.run(dialectOf);
    return opened;
  };
  return options.sockets.accept(request, reply, open, options.sessions.maxMessageBytes);
}

class SessionSocket implements OpenSocket {
  readonly #options: RealtimeOptions;
  readonly #request: FastifyRequest;
  readonly #client: SessionClient;
  readonly #openedAt = performance.now();
  #pingedAt = this.#openedAt;

  constructor(
    webSocket: WebSocket,
    connection: Socket,
    request: FastifyRequest,
    options: RealtimeOptions,
    sendsErrors: boolean,
  ) {
    this.#options = options;
    this.#request = request;
    this.#client = new SessionClient(
      messageSocketOf(webSocket, connection, () => options.stallTimeoutMs),
      sendsErrors,
    );
  }

  /** One exchange. Never rejects. */
  async run(dialectOf: (request: ModelRequest, client: SessionClient) => Promise<ExchangeDialect>): Promise<void> {
    const { exchanges, recorder, run } = this.#options;
    const request = this.#request;
    const client = this.#client;
    const requestId = String(request.id);
    request.arrivedAt = performance.now();
    try {
      const modelRequest = { ...exchanges.modelRequestOf(request), requestId };
      const dialect = await dialectOf(modelRequest, client);
      await exchanges.runFor(client, () => run(dialect, modelRequest, client));
    } catch (error) {
      const refusal = toRefusal(error);
      await recorder.refused(request, refusal).catch(() => {});
      client.refuse(refusal, { 'x-request-id': requestId });
    }
  }

  /** Ends the session when its key or its model is not accepted any more, or a limit of its time is reached. */
  check(now: number): void {
    const { exchanges, limits } = this.#options;
    const client = this.#client;
    const { session } = client;
    // While its provider is being connected, other limits apply.
    if (session === undefined || client.ended.aborted) return;
    const refusal = this.#whyNot() ?? session.silence(now);
    if (refusal !== undefined) {
      session.interrupt(refusal);
      return;
    }
    if (now - this.#pingedAt >= limits.pingMs) {
      this.#pingedAt = now;
      if (!client.socket.ping() || !session.ping()) return;
    }
    if (now - this.#openedAt >= limits.maxAgeMs) {
      session.interrupt(refusals.socketTooOld(Math.round(limits.maxAgeMs / 60_000)));
    } else if (session.isResponding) return;
    else if (exchanges.isStopping) client.endEarly('gateway_stopping');
    else if (now - client.usedAt >= limits.idleMs) session.interrupt(refusals.sessionIdle(limits.idleMs));
  }

  /** By the state of the key and of the access rules now. */
  #whyNot(): Refusal | undefined {
    const { authenticator, access } = this.#options;
    const request = this.#request;
    let caller: ReturnType<typeof callerOf>;
    try {
      caller = authenticator.authenticate(request);
      request.caller = caller;
    } catch (error) {
      const refusal = toRefusal(error);
      // A client secret begins sessions, and does not end them.
      const isEnd = (refusal.status === 401 || refusal.status === 403) && refusal.code !== 'client_secret_expired';
      return isEnd ? refusal : undefined;
    }
    const target = this.#client.session?.target;
    if (target === undefined) return undefined;
    const { provider, model } = target;
    if (model === '') {
      const mayUse = access.allowsProvider(caller, provider.name, 'all');
      return mayUse ? undefined : refusals.modelAccessDenied(provider.name);
    }
    const used = [model, ...(this.#client.session?.transcriptionModels ?? [])];
    const denied = used.find((one) => !access.allows(caller, provider.name, one));
    return denied === undefined ? undefined : refusals.modelAccessDenied(denied);
  }

  close(code: number, reason: string): void {
    this.#client.socket.close(code, reason);
  }

  destroy(): void {
    this.#client.socket.destroy();
  }
}
